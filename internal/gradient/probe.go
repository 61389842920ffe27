package gradient

import "math"

const (
	shortest = 5 * second  // between two probes, on average, while they find something
	usual    = 60 * second // and when nothing is suspicious
	doubling = 3600 * second

	lower  = 0.5 // the limit of a probe, of the one before
	higher = 1.5 // the same when there is no room below

	noticeable = 1.2  // times the latency expected: not chance
	suspicious = 2    // times the latency tolerated: cause for a probe
	sunk       = 0.75 // of a limit that was right: cause for a probe

	// With which power of the limit latency falls: 1 if all of it is a queue, 0
	// if none is.
	ours     = 0.4
	allOfIt  = 0.95
	mostOfIt = 0.6
)

// probe compares latency under two limits.
type probe struct {
	on    bool
	again bool    // its second window: what both say is not chance
	first float64 // the latency in the first
	top   float64 // the limit when it began
	plain float64 // what was taken for the latency without a queue then
	from  float64 // the limit to compare with: top, or the step before
	rtt   float64 // the latency under it

	check bool    // that latency returns with the limit
	at    float64 // the lower limit
	low   float64 // and its latency

	every  float64 // nanoseconds between probes, on average
	due    float64 // when there is one although nothing happened
	soon   float64 // before which there is none
	raised float64 // when base was last let rise
}

// doubtful reports whether it is time to probe: latency is raised, the limit is
// full, so it may be the cause, and either it was long ago that this was
// settled, or something happened that simple cuts do not explain.
func (l *Limit) doubtful(now float64, v view) bool {
	p := &l.probe
	if now < p.soon || v.busy < full*l.whole() || v.rtt <= noticeable*l.base || l.min == l.max {
		return false
	}
	tolerated := tolerance * l.plain
	if l.atFloor() && v.rtt <= tolerated {
		return false // it grows without
	}
	return now >= p.due || v.rtt > suspicious*tolerated || l.limit < sunk*l.high
}

func (l *Limit) atFloor() bool { return l.limit < higher*l.min }

// dip begins a probe.
func (l *Limit) dip(v view) {
	p := &l.probe
	p.on, p.check = true, false
	p.top, p.from, p.rtt, p.plain = l.limit, l.limit, v.rtt, l.plain
	if l.atFloor() {
		l.limit = l.bounded(l.limit * higher)
	} else {
		l.limit = l.bounded(l.limit * lower)
	}
}

// judge ends a probe, or takes it a step further.
func (l *Limit) judge(now float64, v view) {
	p := &l.probe
	here := l.limit
	if v.busy < l.whole()/2 {
		p.giveUp(l) // there is too little to do now
		p.schedule(l, now, v)
		return
	}
	follows := 1.0
	if here != p.from {
		follows = math.Log(v.rtt/p.rtt) / math.Log(here/p.from)
	}
	if here > p.from {
		p.on = false
		p.schedule(l, now, v)
		l.judgeRise(now, follows)
		return
	}
	if l.bounded(here*lower) < here && l.wholly(here, v) {
		if p.again {
			p.from, p.rtt = here, v.rtt
			l.limit = l.bounded(here * lower)
		}
		p.again, p.first = !p.again, v.rtt
		return
	}
	p.on, p.again = false, false
	p.schedule(l, now, v)
	l.follow(now, v.rtt)
	if follows >= ours {
		l.blame(now, v.rtt)
	} else {
		l.acquit(now, here, v.rtt)
	}
}

// wholly reports whether all of the latency is a queue, so that still less than
// this limit may do.
func (l *Limit) wholly(here float64, v view) bool {
	p := &l.probe
	if v.busy < full*l.whole() {
		return false
	}
	share := allOfIt
	switch {
	case p.plain > noticeable*l.base:
		share = mostOfIt // what made requests slower may have passed
	case v.proven() > p.plain && v.rtt < noticeable*p.plain:
		return false // what is as quick as ever is as low as it goes
	}
	rtt, before := v.rtt, min(p.rtt, tolerance*p.plain)
	if p.again {
		rtt = (rtt + p.first) / 2
	}
	return math.Log(rtt/before) < share*math.Log(here/p.from)
}

// judgeRise ends a probe upwards. Latency at the lower limit stays what it was;
// if it is not that limit's doing the higher one holds.
func (l *Limit) judgeRise(now, follows float64) {
	p := &l.probe
	if follows >= ours {
		l.limit, p.soon = p.from, p.due
		return
	}
	l.plain = max(l.base, p.rtt)
	l.high = l.limit
	l.yield = yield{}
	p.soon = now + shortest
}

// blame ends a probe that found a queue: the limit is what makes it as long as
// is tolerated.
func (l *Limit) blame(now, rtt float64) {
	p := &l.probe
	l.plain = max(l.base, min(l.plain, rtt))
	l.limit = l.bounded(p.from * min(max(tolerance*l.plain/p.rtt, lower), 1))
	l.high = l.limit
	if l.plain < 0.9*p.plain || rtt > tolerance*l.plain {
		p.hurry(now) // there is more to find
	}
}

// acquit ends a probe that found latency not to be the limit's doing.
func (l *Limit) acquit(now, here, rtt float64) {
	p := &l.probe
	switch {
	case p.from < p.top: // the last of several steps
		l.limit = l.bounded(p.from * max(tolerance*l.plain/p.rtt, 1))
	case rtt <= noticeable*l.base:
		l.limit = p.top
	default:
		l.limit = max(p.top, l.high)
		l.plain = rtt
		p.check, p.at, p.low = true, here, rtt
	}
	l.high = l.limit
	l.yield = yield{}
	p.soon = now + shortest
}

// confirm looks whether latency rises with the limit after a probe that found
// it to stay when it fell: then the server changed at that moment.
func (l *Limit) confirm(now float64, v view) {
	p := &l.probe
	p.check = false
	if v.busy < l.whole()/2 || math.Log(v.rtt/p.low) < ours*math.Log(l.limit/p.at) {
		return
	}
	l.plain = max(l.base, min(l.plain, p.plain))
	p.soon = now
	p.hurry(now)
}

// follow lets the base rise towards what requests take under a low limit.
func (l *Limit) follow(now, rtt float64) {
	since := min(max(now-l.probe.raised, 0), 2*usual)
	l.probe.raised = now
	if rtt > l.base {
		l.base = min(rtt, l.base*math.Exp2(since/doubling))
		l.plain = max(l.plain, l.base)
	}
}

// startOver is for when nothing happened for long, or the clock was set.
func (l *Limit) startOver(now int64) {
	p := &l.probe
	p.giveUp(l)
	p.soon, p.raised = float64(now), float64(now)
	p.hurry(float64(now))
}

// giveUp ends a probe that found nothing.
func (p *probe) giveUp(l *Limit) {
	if p.on {
		l.limit = p.top
	}
	p.on, p.again, p.check = false, false, false
}

// hurry makes a probe due, and the next ones frequent.
func (p *probe) hurry(now float64) { p.due, p.every = now, 0 }

// schedule says when the next probe is due.
func (p *probe) schedule(l *Limit, now float64, v view) {
	p.every = min(max(2*p.every, shortest), usual)
	p.due = now + p.every*(0.5+l.uniform(v))
}

// uniform is a number in [0, 1) of the seed and of what was seen.
func (l *Limit) uniform(v view) float64 {
	l.random += math.Float64bits(v.rtt) + 0x9e3779b97f4a7c15
	z := l.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
