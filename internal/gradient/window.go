package gradient

import "math"

const (
	second = 1e9 // nanoseconds

	// A window ends when its mean is known well enough: to 5 % by many samples,
	// to 10 % after a second, by half as many, or as it is after ten.
	fewSamples  = 10 // fewer say nothing
	manySamples = 200
	precision   = 0.05 // the standard error of the mean, of the mean
	minWindow   = second / 5
	fullWindow  = second
	longWindow  = 10 * second
	minTurns    = 2 // and no earlier than after so many times what a request takes, or all of them began together

	longest = 10 // times the typical latency: what one request counts for at most

	// After so long without a sample, and so many times what a request takes,
	// what was seen before is history.
	gap      = 10 * second
	gapTurns = 4

	// A clock that goes back by more was set; by less, two requests ended at once.
	setBack = second
)

// window adds samples up.
type window struct {
	begun  bool
	from   int64   // when it was begun
	settle float64 // for how long from then on samples are not counted
	latest int64
	spent  float64 // counting

	n           [abandoned + 1]int
	sum, square float64 // of the times of those not dropped
	whole       float64 // of the times of those that ended, the sum
	busy        float64 // sum of those in flight
	peak        int
}

// kind is how a request ended.
type kind int

const (
	ok        kind = iota
	refused        // by what it needed
	abandoned      // by its client
)

// begin forgets everything and counts what ends later than settle from now.
func (w *window) begin(now int64, settle float64) {
	*w = window{begun: true, from: now, settle: min(settle, longWindow), latest: now}
}

// stale reports whether the window cannot be gone on with: it never began, the
// clock was set back, or nothing has ended for long.
func (w *window) stale(now int64, rtt float64) bool {
	since := float64(now) - float64(w.latest)
	return !w.begun || since < -setBack || since > max(gap, gapTurns*rtt)
}

func (w *window) add(now int64, rtt float64, inFlight int, how kind) {
	w.latest = max(w.latest, now)
	w.spent = float64(w.latest) - float64(w.from) - w.settle
	if w.spent < 0 {
		return
	}
	w.busy += float64(inFlight)
	w.peak = max(w.peak, inFlight)
	w.n[how]++
	if how == refused {
		return
	}
	w.sum += rtt
	w.square += rtt * rtt
	if how == ok {
		w.whole += rtt
	}
}

func (w *window) complete() bool {
	n := w.n[ok] + w.n[refused] + w.n[abandoned]
	if n < fewSamples || w.spent < minWindow || w.spent < fullWindow && n < manySamples {
		return false
	}
	v := w.view()
	switch {
	case w.spent >= longWindow:
		return true
	case w.spent < minTurns*v.took:
		return false
	case v.lost > maxLost || w.n[abandoned] > w.n[ok]:
		return true
	case w.spent < fullWindow:
		return v.err <= precision*v.rtt
	default:
		return n >= manySamples/2 && v.err <= 2*precision*v.rtt
	}
}

// view is what a window shows.
//
// Who gave up is part of it as in the statistics of survival: the mean is the time
// spent on all, for each that ended. By Little's law it is what they would have
// taken if all had waited, whenever they lost patience, also if that ended the
// work; and it grows with what is in flight, as latency does. Who leaves at once
// counts for next to nothing.
type view struct {
	n    int
	ok   int
	lost float64 // the share that was dropped
	rtt  float64 // nanoseconds: the mean latency of those not dropped
	err  float64 // nanoseconds: its standard error
	took float64 // nanoseconds: the mean time of those not dropped, until they ended or were given up
	rate float64 // of those that ended, per second
	busy float64 // in flight, the mean
	peak float64 // in flight, the most
}

func (w *window) view() view {
	all := float64(w.n[ok] + w.n[refused] + w.n[abandoned])
	v := view{
		n:    w.n[ok] + w.n[abandoned],
		ok:   w.n[ok],
		lost: float64(w.n[refused]) / all,
		busy: w.busy / all,
		peak: float64(w.peak),
	}
	if v.n > 0 {
		v.took = w.sum / float64(v.n)
	}
	if v.ok > 0 {
		n := float64(v.ok)
		v.rtt = w.sum / n
		v.err = math.Sqrt(max(w.square-2*v.rtt*w.whole+v.rtt*v.rtt*n, 0)) / n
		v.rate = n / w.spent * second
	}
	return v
}

// proven is a latency that the true one is below.
func (v view) proven() float64 { return v.rtt + certainty*v.err }

// hopeless reports whether nobody waited for the end.
func (v view) hopeless() bool { return v.ok == 0 && v.n > 0 }
