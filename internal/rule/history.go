package rule

import (
	"fmt"
	"time"
)

// MaxEntries bounds what is remembered of one key: the quota of a SlidingLog and
// the cells of SlidingBuckets. An entry is 16 bytes.
const MaxEntries = 10_000

// History is what SlidingLog and SlidingBuckets remember of one key. The zero
// History is that of a key never seen. The verbs of a Rule over it come in
// pairs, as a stack of limits has to ask all before it charges any.
//
// A bucket is an entry that came at the end of its cell, which no unit in it can
// outlast, so it never admits more than the log.
type History struct {
	entries []entry // oldest first, from head on
	head    int
	total   int64 // units in all entries
}

type entry struct{ at, units int64 }

// NewSlidingLog admits quota units in any interval as long as the window: those
// admitted in (now−window, now] count.
func NewSlidingLog(quota, window int64) (*Rule, error) {
	if err := checkWindow(quota, window); err != nil {
		return nil, err
	}
	if quota > MaxEntries {
		return nil, fmt.Errorf("quota %d is too large: a log remembers every request, so it may be %d at most", quota, MaxEntries)
	}
	return &Rule{kind: SlidingLog, quota: quota, window: window}, nil
}

// NewSlidingBuckets is NewSlidingLog with one count for each of cells equal
// parts of the window, which start at their multiples since the Unix epoch.
func NewSlidingBuckets(quota, window int64, cells int) (*Rule, error) {
	if err := checkWindow(quota, window); err != nil {
		return nil, err
	}
	switch {
	case cells < 1 || cells > MaxEntries:
		return nil, fmt.Errorf("%d cells: there may be 1 to %d", cells, MaxEntries)
	case window%int64(cells) != 0:
		return nil, fmt.Errorf("%d cells do not divide the window of %v into whole nanoseconds", cells, time.Duration(window))
	}
	cell := window / int64(cells)
	return &Rule{kind: SlidingBuckets, quota: quota, window: window, cells: cells, cell: cell, per: newDivisor(cell)}, nil
}

// Ask says what Charge would do with cost, and changes nothing that can be
// seen: it may forget what has expired. h may be nil: a key never seen.
func (r *Rule) Ask(h *History, now, cost int64) Verdict {
	if h == nil {
		h = &History{}
	}
	r.settle(h, now)
	v := Verdict{Remaining: max(r.quota-h.total, 0), Reset: max(r.FreshAt(h)-now, 0)}
	switch ask := max(cost, 1); {
	case ask > r.quota:
		v.Retry = Never
	case ask > v.Remaining:
		// The oldest make room first. Each has a unit at least, so this takes ask
		// steps at most.
		need := h.total + ask - r.quota
		for _, e := range h.entries[h.head:] {
			if need -= e.units; need <= 0 {
				v.Retry = e.at + r.window - now
				break
			}
		}
	case cost > 0:
		v.Remaining -= cost
		v.Reset = r.stamp(now) + r.window - now
	}
	return v
}

// Charge enters a cost that Ask has just admitted at the same instant.
func (r *Rule) Charge(h *History, now, cost int64) {
	if cost <= 0 {
		return
	}
	h.total += cost
	at := r.stamp(now)
	if n := len(h.entries); n > h.head && h.entries[n-1].at == at {
		h.entries[n-1].units += cost
		return
	}
	h.push(entry{at, cost})
}

// push adds an entry. Room comes from those forgotten, if they are half.
func (h *History) push(e entry) {
	if n := len(h.entries); n == cap(h.entries) && h.head >= (n+1)/2 && n > 0 {
		h.entries = h.entries[:copy(h.entries, h.entries[h.head:])]
		h.head = 0
	}
	h.entries = append(h.entries, e)
}

// Return gives back cost units, the latest first, as far as that many are in use.
// That is exact of what was charged last.
func (r *Rule) Return(h *History, now, cost int64) {
	if h == nil {
		return
	}
	r.settle(h, now)
	for n := len(h.entries); n > h.head && cost > 0; n-- {
		e := &h.entries[n-1]
		back := min(cost, e.units)
		cost -= back
		h.total -= back
		if e.units -= back; e.units == 0 {
			h.entries = h.entries[:n-1]
		}
	}
}

// Blank reports whether h equals new and may be forgotten.
func (r *Rule) Blank(h *History, now int64) bool { return h == nil || r.FreshAt(h) <= now }

// FreshAt returns the instant from which h equals new, 0 if it always does.
func (r *Rule) FreshAt(h *History) int64 {
	if n := len(h.entries); n > h.head {
		return h.entries[n-1].at + r.window
	}
	return 0
}

// Bytes returns the size of h in memory, itself included.
func (h *History) Bytes() int { return 40 + 16*cap(h.entries) }

// stamp returns the instant that a unit admitted now is taken to have come at.
func (r *Rule) stamp(now int64) int64 {
	if r.kind == SlidingLog {
		return now
	}
	return (r.per.floor(now) + 1) * r.cell
}

// settle forgets what has expired, and has nothing lie ahead of the clock, which
// may have stepped back: what was later was now.
func (r *Rule) settle(h *History, now int64) {
	n := len(h.entries)
	if n == h.head {
		return
	}
	if latest := r.stamp(now); h.entries[n-1].at > latest {
		ahead := int64(0)
		for ; n > h.head && h.entries[n-1].at >= latest; n-- {
			ahead += h.entries[n-1].units
		}
		h.entries = append(h.entries[:n], entry{latest, ahead})
	}
	for h.head < len(h.entries) && h.entries[h.head].at+r.window <= now {
		h.total -= h.entries[h.head].units
		h.head++
	}
	live := len(h.entries) - h.head
	if live == 0 {
		h.entries, h.head = h.entries[:0], 0
	}
	if cap(h.entries) > 64 && live < cap(h.entries)/8 {
		h.entries, h.head = append(make([]entry, 0, 2*live), h.entries[h.head:]...), 0
	}
}
