package pacer

import "time"

const (
	holdJitter    = 10               // a hold ends up to a tenth later...
	mostJitter    = 30 * time.Second // ...but no more than this
	foreverInNano = int64(366 * 24 * time.Hour)
)

// hold keeps everybody back until an instant. It is a pure rule.
//
//	told ├──────────────────────┤ until: nobody leaves before
//	                            ├─ ─┤ end: jittered, or all clients come at once
//	                                ├┬┬┬┬┤ and those who waited leave one by one,
//	                                     │ by their rate, else within a like time
type hold struct {
	end   int64 // nobody leaves before; 0: no hold
	told  int64 // the same without jitter
	probe int64 // the hold is over MaxHold: then one may leave; 0: none may
	asked bool  // one did, and its answer tells whether the hold goes on

	empty bool  // the bucket is to be emptied at the end
	width int64 // the time in which those who waited leave
	gap   int64 // between two of them; 0: nobody is let out so
	next  int64 // when the next of them may leave
}

// extend holds until an instant, with jitter from [0, 1), and tells whether
// that changed anything: a hold never gets shorter. MaxHold is at most most.
func (h *hold) extend(now, until, most int64, jitter float64) bool {
	until = min(until, later(now, foreverInNano))
	if until <= now || until <= h.end {
		h.told = max(h.told, min(until, h.end))
		return false
	}
	h.told = until
	h.width = min((until-now)/holdJitter, int64(mostJitter))
	h.end = later(until, int64(jitter*float64(h.width)))
	h.gap, h.empty, h.asked = 0, true, false
	h.probe = 0
	if most > 0 && until-now > most {
		h.probe = later(now, most)
	}
	return true
}

// ease lets those who waited for an instant leave within a time.
func (h *hold) ease(end, width int64) {
	if end > h.end {
		*h = hold{end: end, told: end, width: width, next: h.next}
	}
}

// soonest returns when one may leave.
func (h *hold) soonest(now int64) int64 {
	if now < h.end {
		if h.probe > 0 {
			return max(now, min(h.probe, h.end))
		}
		return h.end
	}
	if h.gap > 0 {
		return max(now, h.next)
	}
	return now
}

// active tells whether the hold still keeps calls back.
func (h *hold) active(now int64) bool { return now < h.end }

// take lets one leave now, with so many waiting behind. Paced means that they
// have a rate to leave by.
func (h *hold) take(now, most int64, behind int, paced bool) {
	if now < h.end {
		h.probe, h.asked = later(now, most), true
		return
	}
	if h.width > 0 && h.gap == 0 && !paced {
		h.gap = h.width / int64(behind+1)
	}
	h.width = 0
	h.next = later(now, h.gap)
	if behind == 0 {
		h.gap = 0
	}
}

// lift ends a hold that one call tried, and that its answer did not confirm.
func (h *hold) lift(now int64) bool {
	if !h.asked || now >= h.end {
		return false
	}
	h.end, h.told, h.asked, h.probe = now, now, false, 0
	return true
}
