package breaker

import (
	"sync/atomic"
	"time"
)

// A Permit lets one call pass. The zero Permit stands for a call that nobody
// guards; its Done does nothing.
type Permit struct {
	era  *era
	call *call // a probe, or a call that may get slow; else nil
}

// Done reports how the call went. It is called once, also when the call panics
// (a probe that never reports keeps its place for the ProbeTimeout).
//
// told is the wait that the answer asked for, zero if none: it is part of how
// long the circuit stays open, if this report opens it or a later one does. A
// zero now reads the clock only if it must.
func (p Permit) Done(o Outcome, told time.Duration, now time.Time) {
	switch e := p.era; {
	case e == nil:
	case p.call != nil:
		e.owner.finish(e, p.call, o, told, now)
	case o == Success:
		e.succeed(now)
	default:
		e.owner.report(e, judge(o), told, now)
	}
}

// A verdict is what an outcome means to this Breaker.
type verdict int

const (
	ignored verdict = iota
	good
	failed
	unreachable
	throttled
	slow       // not ended yet, and already too slow
	fellSilent // unreachable in the end, after it was counted as slow
)

func judge(o Outcome) verdict {
	switch o {
	case Success:
		return good
	case Failure:
		return failed
	case Unreachable:
		return unreachable
	case Throttled:
		return throttled
	}
	return ignored
}

// report ends a call of a closed era.
func (b *Breaker) report(e *era, v verdict, told time.Duration, now time.Time) {
	switch {
	case v == good:
		e.succeed(now)
		return
	case v == ignored, v == throttled && told <= 0:
		e.leave(0)
		return
	}
	t := b.since(now)
	b.mu.Lock()
	e.leave(0)
	if e.circuit.era.Load() == e {
		b.count(e, v, told, t)
	}
	b.unlock()
}

// A call is a call that needs to be known by itself.
type call struct {
	progress atomic.Int32
	timer    *time.Timer // nil without SlowCall
	at       int64
}

const (
	running int32 = iota
	gotSlow       // counted, not ended
	finished
)

// watch is the permit of a call, which counts as a failure when it gets slow.
func (b *Breaker) watch(e *era, c *call, now time.Time) Permit {
	after := b.slowAfter()
	if after <= 0 {
		return Permit{era: e, call: c}
	}
	if c == nil {
		c = &call{at: b.since(now)}
	}
	c.timer = time.AfterFunc(after, func() { b.slow(e, c) })
	return Permit{era: e, call: c}
}

// slow counts a call that runs for SlowCall.
func (b *Breaker) slow(e *era, c *call) {
	if !c.progress.CompareAndSwap(running, gotSlow) {
		return
	}
	t := b.since(time.Time{})
	b.mu.Lock()
	switch {
	case e.circuit.era.Load() != e:
	case e.state == Closed:
		b.count(e, slow, 0, t)
	case e.probe == c:
		b.settle(e, slow, 0, t)
	}
	b.unlock()
}

// finish ends a call that is known by itself; further calls do nothing.
func (b *Breaker) finish(e *era, c *call, o Outcome, told time.Duration, now time.Time) {
	if c.timer != nil {
		c.timer.Stop()
	}
	v := judge(o)
	switch {
	case c.progress.CompareAndSwap(running, finished):
		// The timer may come late on a busy machine.
		if v == good && c.timer != nil && b.since(now)-c.at > int64(b.SlowCall) {
			v = slow
		}
	case c.progress.CompareAndSwap(gotSlow, finished):
		// Counted already, but UnreachableOnly has not seen it yet.
		if v == unreachable && b.UnreachableOnly {
			v = fellSilent
		} else {
			v = ignored
		}
	default:
		return
	}
	if e.state == Closed {
		b.report(e, v, told, now)
		return
	}
	t := b.since(now)
	b.mu.Lock()
	if e.circuit.era.Load() == e && e.probe == c {
		b.settle(e, v, told, t)
	}
	b.unlock()
}
