package gradient

import "math"

const (
	// tolerance is how much longer than without a queue requests may take: a
	// queue of more than half the workers, which keeps all of them busy even if
	// requests differ much from each other.
	tolerance = 1.6

	maxGrowth = 1.5  // in one window
	maxCut    = 0.5  // what counts of a latency far beyond
	damping   = 0.5  // the exponent of a change that may be chance
	flat      = 1.28 // tolerance to spare that is not chance: the change is not damped

	reached = 0.9 // of the limit in flight at one time
	full    = 0.8 // of the limit in flight on average

	maxLost = 0.05 // the share of dropped requests that is borne
	lostCut = 0.9  // what a window with more costs

	hopelessCut = 0.7 // what one costs whose clients all gave up

	certainty = 2.5 // standard errors
)

// evaluate moves the limit by what a window showed.
func (l *Limit) evaluate(now float64, v view) {
	if v.lost > maxLost {
		if v.peak >= l.whole()/2 {
			l.probe.giveUp(l)
			l.limit = l.bounded(l.limit * lostCut)
			l.high = l.limit
		}
		return
	}
	if v.hopeless() {
		if v.peak >= l.whole()/2 {
			l.giveUp()
		}
		return
	}
	l.learn(now, v)
	if l.probe.on {
		l.judge(now, v)
		return
	}
	if l.probe.check {
		l.confirm(now, v)
	}
	if v.peak < l.whole()/2 {
		return // so few say nothing about what would be too many
	}
	atLimit := v.peak >= reached*l.whole()
	if atLimit {
		l.yield.note(l.limit, v.rate)
	}
	if l.doubtful(now, v) {
		l.dip(v)
		return
	}
	spare := tolerance * l.plain / v.rtt
	switch {
	case spare < 1:
		if v.busy >= full*l.whole() {
			l.limit = l.bounded(l.limit * math.Pow(max(spare, maxCut), damping))
		}
		return // one that is not full did not cause this: it stays
	case atLimit:
		l.grow(spare, v)
	}
	l.high = max(l.high+0.25*(l.limit-l.high), l.limit)
}

// giveUp lowers the limit when nobody waits for the end. If it is a probe that is
// on, the way is right: it does not return to where it began.
func (l *Limit) giveUp() {
	l.probe.on, l.probe.again, l.probe.check = false, false, false
	l.limit = l.bounded(l.limit * hopelessCut)
	l.high = l.limit
}

func (l *Limit) grow(spare float64, v view) {
	step := math.Pow(spare, damping)
	if spare >= flat && v.busy >= full*l.whole() {
		step = spare
	}
	grown := l.limit * min(step, maxGrowth)
	l.limit = l.bounded(max(min(grown, l.yield.worthwhile()), l.limit))
}

// learn takes up lower latencies at once, as far as a window proves them.
func (l *Limit) learn(now float64, v view) {
	proven := v.proven()
	if l.base == 0 {
		l.base, l.plain = proven, proven
	}
	l.base = min(l.base, proven)
	if proven < l.plain && l.plain > noticeable*l.base {
		l.probe.hurry(now) // what made requests slower is passing
	}
	l.plain = max(min(l.plain, proven), l.base)
}

// yield remembers which limit brought which throughput.
type yield struct {
	limit float64 // the lowest that brought
	rate  float64 // this many requests a second
}

func (y *yield) note(limit, rate float64) {
	if rate > 1.1*y.rate {
		*y = yield{limit, rate}
		return
	}
	if rate < y.rate {
		y.rate += 0.1 * (rate - y.rate) // the server may have become slower
	}
	if rate >= 0.95*y.rate {
		y.limit = min(y.limit, limit)
	}
}

// worthwhile is the highest limit worth trying: one half as high again as
// another, and without more throughput, makes nothing but a queue.
func (y *yield) worthwhile() float64 { return 1.5*y.limit + 2 }
