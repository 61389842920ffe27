package limiter

import (
	"context"
	"math"
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// queues reports whether the request is to pass a LeakyQueue.
func (b *bill) queues() bool {
	for i := range b.charges {
		if b.queue(i) {
			return true
		}
	}
	return false
}

// queue reports whether a charge is to a LeakyQueue.
func (b *bill) queue(i int) bool { return b.charges[i].Limit.rule.Kind() == rule.LeakyQueue }

// enter takes a place among the held for a request that is to pass a queue. If
// there is none, or the queue is longer than the request may wait, it says so
// and charges nothing: what has once been entered in a queue cannot be taken out
// of its middle, for those behind know when they leave.
func (g *guard) enter(ctx context.Context, b *bill) (d Decision, why refusal) {
	most := g.mayWait(ctx)
	if g.memory != nil {
		d = b.keep(g.memory.peek(b.room(), b.charges))
	}
	delay, queue := b.delay(g)
	stay := delay - most // away, until the queue is short enough
	if stay > 0 {
		why = g.tooLong(ctx, b, most)
	}
	if n := g.held.Add(1); g.maxHeld >= 0 && n > int64(g.maxHeld) {
		if why == notRefused || why == queueTooLong {
			why = tooManyHeld
		}
		// All who are held now have left by then, whatever queue they are in.
		if g.maxDelay >= 0 {
			stay = max(stay, g.maxDelay)
		} else {
			stay = max(delay, time.Second)
		}
	}
	if why == notRefused {
		return d, why
	}
	g.held.Add(-1)
	if g.memory == nil {
		d = b.askStore(g, ctx)
	}
	return d, b.refuseQueue(&d, queue, stay, why)
}

// tooLong is why a request is refused that would be held longer than it may be.
func (g *guard) tooLong(ctx context.Context, b *bill, most time.Duration) refusal {
	switch idle := b.idleDelay(); {
	case ctx.Err() != nil:
		return hungUp
	case g.maxDelay >= 0 && idle > g.maxDelay:
		return tooCostly // it would wait too long in an empty queue as well
	case idle > most:
		return tooHasty
	}
	return queueTooLong
}

// delay is how long the longest of the queues would keep the request, and which
// charge that is to. Only a Memory was asked; with another Store it turns out
// when it has charged.
func (b *bill) delay(g *guard) (longest time.Duration, queue int) {
	queue = -1
	for i := range b.charges {
		if !b.queue(i) || b.repeats(i) {
			continue
		}
		var d time.Duration
		if g.memory != nil {
			d = b.each[i].Delay
		}
		if queue < 0 || d > longest {
			longest, queue = d, i
		}
	}
	return longest, queue
}

// idleDelay is how long the request would wait if nobody else did.
func (b *bill) idleDelay() (longest time.Duration) {
	for i := range b.charges {
		if b.queue(i) && !b.repeats(i) {
			longest = max(longest, time.Duration(b.charges[i].Limit.rule.Delay(rule.State{}, 0, b.total(i))))
		}
	}
	return longest
}

// total is the cost of all charges to the limit and key of one.
func (b *bill) total(i int) (cost int64) {
	for _, c := range b.charges {
		if c.Limit == b.charges[i].Limit && c.Key == b.charges[i].Key {
			cost = sum(cost, c.Cost)
		}
	}
	return cost
}

// askStore is the decision on the charges if each were of one unit, for more
// cannot be asked of a Store without charging it.
func (b *bill) askStore(g *guard, ctx context.Context) Decision {
	costs := make([]int64, len(b.charges))
	for i := range b.charges {
		costs[i], b.charges[i].Cost = b.charges[i].Cost, 0
	}
	d := b.take(g, ctx)
	for i := range b.charges {
		b.charges[i].Cost = costs[i]
	}
	return d
}

// refuseQueue makes d a refusal by the queue that the i-th charge is to, unless
// another limit refuses longer, and returns why that is.
func (b *bill) refuseQueue(d *Decision, i int, stay time.Duration, why refusal) refusal {
	other := reason(d)
	d.Allowed, d.Delay = false, 0
	for j := range b.each {
		b.each[j].Delay = 0
	}
	if other == storeFailed {
		return other
	}
	never := why == tooCostly || why == tooHasty
	e := &b.each[i]
	e.Allowed, e.Never, e.RetryAfter = false, e.Never || never, max(e.RetryAfter, stay)
	if d.Never || !never && other != notRefused && d.RetryAfter > e.RetryAfter {
		return other
	}
	d.By, d.Never, d.Quota, d.Remaining = b.charges[i].Limit, e.Never, e.Quota, e.Remaining
	d.RetryAfter, d.ResetAfter = e.RetryAfter, e.ResetAfter
	return why
}

// hold keeps an admitted request of a LeakyQueue until it is to leave, in the
// request's own goroutine. If it ends meanwhile, its place in the queue passes
// unused, and nothing is given back: or leaving at once would be free, and let
// anybody use up all places of a queue, whatever other limits say.
func (g *guard) hold(ctx context.Context, b *bill, d *Decision) refusal {
	if most := g.mayWait(ctx); d.Delay > most {
		// Others came in between, or the Store could not be asked before. The
		// place is the last one, or was an instant ago.
		b.refund(g, ctx, d)
		return b.refuseQueue(d, b.slowest(), d.Delay-most, g.tooLong(ctx, b, most))
	}
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return notRefused
	case <-ctx.Done():
		return b.refuseQueue(d, b.slowest(), d.Delay, hungUp)
	}
}

// slowest is the charge to the queue that has the request wait.
func (b *bill) slowest() int {
	queue := -1
	for i := range b.charges {
		if b.queue(i) && (queue < 0 || b.each[i].Delay > b.each[queue].Delay) {
			queue = i
		}
	}
	return queue
}

// mayWait is how long a request may be held.
func (g *guard) mayWait(ctx context.Context) time.Duration {
	most := g.maxDelay
	if most < 0 {
		most = math.MaxInt64
	}
	if end, ok := ctx.Deadline(); ok {
		most = min(most, max(time.Until(end), 0))
	}
	return most
}
