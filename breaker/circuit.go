package breaker

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	forever = math.MaxInt64
	never   = math.MinInt64 // before everything

	// A told wait beyond this counts as this: a field that went wrong must not
	// silence a provider for days.
	maxTold = time.Hour

	// A clock that is further back than this was another clock. Less than that
	// is a stamp taken before a wait, and must not shorten anything.
	otherClock = int64(time.Minute)
)

// A circuit is what is known about one key.
type circuit struct {
	key   string
	era   atomic.Pointer[era] // changed under Breaker.mu; nil once forgotten
	used  atomic.Bool         // asked for again since the table last looked
	fails int                 // failed probes in a row; under Breaker.mu

	in         *list // of Breaker.keys
	next, prev *circuit
}

// An era is one stay of a circuit in one state. A call holds the era it started
// in; when the state changes, the circuit gets a new one, and what the calls of
// the old one report ends there.
type era struct {
	owner   *Breaker
	circuit *circuit
	state   State

	// Closed.
	flight  atomic.Uint64 // successes<<flightBits | calls in flight; the former wrap
	run     atomic.Int64  // failures in a row
	tickEnd atomic.Int64  // when the window's newest cell ends
	window  *window       // nil without FailureRate; under Breaker.mu
	told    int64         // nobody should call before; under Breaker.mu

	// Open: it refuses from from until until, both fixed.
	// Half-open, under Breaker.mu: the place was taken, or given back, at from,
	// and if it is taken it is free again at until.
	from, until int64
	good        int   // probes that succeeded
	probe       *call // who has the place; nil if it is free
}

const (
	flightBits = 24 // 16 million calls in flight of one key
	success    = uint64(1) << flightBits
	flightMask = success - 1
)

// join counts a call in.
func (e *era) join() { e.flight.Add(1) }

// admit is join without the lock. It reports false if the circuit opened, or was
// forgotten, since e was its era.
func (c *circuit) admit(e *era) bool {
	e.join()
	if c.era.Load() == e {
		return true
	}
	e.leave(0)
	return false
}

// leave counts a call out, and adds to the successes.
func (e *era) leave(successes uint64) {
	if v := e.flight.Add(successes - 1); v&flightMask == flightMask {
		e.flight.Add(1) // it left twice
	}
}

func (e *era) hasCalls() bool { return e.flight.Load()&flightMask != 0 }

func (e *era) successes() uint64 { return e.flight.Load() >> flightBits }

// succeed is the whole end of a successful call, without the lock but for the
// first call in a tenth of the window.
func (e *era) succeed(now time.Time) {
	if e.window != nil {
		if t := e.owner.since(now); t >= e.tickEnd.Load() {
			e.owner.mu.Lock()
			e.tick(t)
			e.owner.mu.Unlock()
		}
	}
	if e.run.Load() != 0 {
		e.run.Store(0)
	}
	e.leave(success)
}

// tick moves the window to t.
func (e *era) tick(t int64) {
	e.tickEnd.Store(e.window.moveTo(t, e.successes()))
}

// left is how long an open era still refuses at t, never longer than it was to
// last in all.
func (e *era) left(t int64) time.Duration {
	return time.Duration(e.until - max(t, e.from))
}

// before reports whether t is of another clock than the one of this era.
func (e *era) before(t int64) bool { return t < e.from-otherClock }

// change puts a circuit into its next state.
func (b *Breaker) change(c *circuit, next *era) *era {
	from := c.era.Load().state
	b.enterEra(c, next)
	if b.OnChange != nil || len(b.listeners) > 0 {
		b.news.queue = append(b.news.queue, transition{c.key, from, next.state})
	}
	return next
}

// enterEra is change without telling.
func (b *Breaker) enterEra(c *circuit, next *era) {
	next.owner, next.circuit = b, c
	if next.state == Closed {
		if w := b.window(); w > 0 {
			next.window = newWindow(w)
		}
		next.tickEnd.Store(never)
		next.told = never
		b.keys.idle.add(c)
	} else {
		b.keys.held.add(c)
	}
	c.era.Store(next)
}

// current is the era of a circuit at t, nil if it is forgotten. Where t is of
// another clock it begins the era anew.
func (b *Breaker) current(c *circuit, t int64) *era {
	e := c.era.Load()
	switch {
	case e == nil:
	case e.state == Open && e.before(t):
		again := &era{state: Open, from: t, until: t + (e.until - e.from)}
		b.enterEra(c, again)
		return again
	case e.state == HalfOpen && e.before(t):
		if e.until != forever {
			e.until = t + (e.until - e.from)
		}
		e.from = t
	}
	return e
}

// blocked is how long nobody may leave, as [Breaker.Open] documents it.
func (b *Breaker) blocked(e *era, t int64) time.Duration {
	switch {
	case e.state == Open:
		return max(0, e.left(t))
	case e.state == HalfOpen && e.probe != nil && t < e.until:
		return min(time.Duration(e.until-t), b.openFor())
	}
	return 0
}

// take gives the place of a probe to a call.
func (b *Breaker) take(e *era, c *call, t int64) {
	e.probe, e.from, e.until = c, t, forever
	if d := b.probeTimeout(); d >= 0 {
		e.until = after(t, d)
	}
}

// count adds what a call reported to a closed era.
func (b *Breaker) count(e *era, v verdict, told time.Duration, t int64) {
	if told > 0 {
		e.told = max(e.told, b.toldUntil(t, told))
	}
	if v == throttled {
		return
	}
	trip := false
	if b.Failures >= 0 && (v == unreachable || v == fellSilent || !b.UnreachableOnly) {
		trip = e.run.Add(1) >= b.failures()
	}
	if e.window != nil && v != fellSilent {
		e.tick(t)
		e.window.fail()
		bad, all := e.window.count()
		// A quotient, not a product: 7 of 100 is 0.07 exactly as written.
		trip = trip || all >= b.minCalls() && float64(bad)/float64(all) >= b.FailureRate
	}
	if trip {
		b.open(e.circuit, t, e.told)
	}
}

// settle takes the report of the probe that has the place.
func (b *Breaker) settle(e *era, v verdict, told time.Duration, t int64) {
	e.probe, e.from, e.until = nil, t, t
	if v == failed && b.UnreachableOnly && b.window() == 0 {
		v = good // what counts for nothing while closed must not open it again
	}
	switch v {
	case ignored, fellSilent:
	case good:
		if e.good++; e.good >= b.probes() {
			e.circuit.fails = 0
			b.change(e.circuit, &era{state: Closed})
		}
	default:
		e.circuit.fails++
		until := int64(never)
		if told > 0 {
			until = b.toldUntil(t, told)
		}
		b.open(e.circuit, t, until)
	}
}

// open opens a circuit at t, not before told.
func (b *Breaker) open(c *circuit, t, told int64) {
	p := period(b.openFor(), b.maxOpenFor(), c.fails)
	p -= time.Duration(b.chance() * float64(p/2))
	b.change(c, &era{state: Open, from: t, until: max(after(t, p), told)})
}

// period is first, doubled for every failed probe, at most most.
func period(first, most time.Duration, fails int) time.Duration {
	for ; fails > 0 && first < most; fails-- {
		if first > most/2 {
			return most
		}
		first *= 2
	}
	return first
}

// after is d after t, or forever.
func after(t int64, d time.Duration) int64 {
	if t > forever-int64(d) {
		return forever
	}
	return t + int64(d)
}

// toldUntil is when a wait told at t ends, and up to a tenth of it.
func (b *Breaker) toldUntil(t int64, told time.Duration) int64 {
	told = min(told, maxTold)
	return t + int64(told) + int64(b.chance()*float64(told/10))
}
