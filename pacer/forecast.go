package pacer

import "time"

// Forecast returns the earliest instant from at on at which Interactive calls
// of these claims are expected to leave together, as things are now. It takes
// nothing and keeps no place, so it may be wrong: whoever comes before the call
// goes before it. Holds and resets count without their jitter, which is cut for whom it
// would make late; those who wait already count; calls in flight do not, for
// nobody knows when those end. Claims that never fit (see [ErrTooLarge]) get an
// instant a year after at. Like [WaitAll] it adds up a key that is named twice.
func Forecast(at time.Time, claims ...Claim) time.Time {
	if len(claims) == 1 && claims[0].Pacer != nil {
		if t := claims[0].forecast(at); t.After(at) {
			return t
		}
		return at
	}
	sum := make([]Claim, 0, 4)
	for _, c := range claims {
		if c.Pacer != nil {
			sum = add(sum, c)
		}
	}
	soonest := at
	for _, c := range sum {
		if t := c.forecast(at); t.After(soonest) {
			soonest = t
		}
	}
	return soonest
}

// forecast is Forecast of one claim. Rooms are not joined for a question.
func (c *Claim) forecast(at time.Time) time.Time {
	p := c.Pacer
	if l := p.last.Load(); l != nil && l.key == c.Key && l.free.Load() {
		return at
	}
	r := p.lock()
	defer r.mu.Unlock()
	l := p.known(c.Key)
	if l != nil && l.free.Load() {
		return at
	}
	now := time.Now()
	t := p.clock(now)
	if l == nil {
		l = p.newLine(c.Key, t)
	}
	if !l.bucket.fits(c.N) {
		return at.Add(time.Duration(foreverInNano))
	}
	l.settle(t)
	jitter := l.hasten(t)
	wait, _ := l.expect(now, Interactive, c.N, false)
	l.relax(jitter)
	return now.Add(wait)
}
