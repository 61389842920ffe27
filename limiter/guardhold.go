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
		if b.charges[i].Limit.rule.Kind() == rule.LeakyQueue {
			return true
		}
	}
	return false
}

// enter takes a place among the held for a request that is to pass a queue. If
// there is none, or the queue is longer than the request may wait, it says so
// and charges nothing: what has once been entered in a queue cannot be taken out
// of its middle, for those behind know when they leave.
func (g *guard) enter(ctx context.Context, b *bill) (d Decision, why refusal) {
	most := g.mayWait(ctx)
	var stay time.Duration // away, until the queue is short enough
	if n := g.held.Add(1); g.maxHeld >= 0 && n > int64(g.maxHeld) {
		// All who are held now have left by then, whatever queue they are in.
		if why, stay = tooManyHeld, g.maxDelay; stay < 0 {
			stay = max(b.delay(g), time.Second)
		}
	} else if delay := b.delay(g); delay > most {
		why, stay = queueTooLong, delay-most
		if g.maxDelay >= 0 && b.idleDelay() > g.maxDelay {
			why = tooCostly // it would wait too long in an empty queue as well
		}
	} else {
		return d, notRefused
	}
	g.held.Add(-1)
	d = b.asking(g, ctx)
	switch {
	case !d.Allowed: // and not by the queue alone
		why = spent
	case why == tooCostly:
		d.Never = true
	}
	b.refuseQueue(&d, max(stay, d.RetryAfter))
	return d, why
}

// delay is how long the longest of the queues would keep the request. Only a
// Memory can be asked; with another Store it turns out when it has charged.
func (b *bill) delay(g *guard) (longest time.Duration) {
	if g.memory == nil {
		return 0
	}
	for i := range b.charges {
		if b.charges[i].Limit.rule.Kind() == rule.LeakyQueue {
			longest = max(longest, g.memory.delay(&b.charges[i]))
		}
	}
	return longest
}

// idleDelay is how long the request would wait if nobody else did.
func (b *bill) idleDelay() (longest time.Duration) {
	for _, c := range b.charges {
		if c.Limit.rule.Kind() == rule.LeakyQueue {
			_, v := c.Limit.rule.Take(rule.State{}, 0, c.Cost)
			longest = max(longest, time.Duration(v.Delay))
		}
	}
	return longest
}

// asking is the decision on the charges if each were of one unit; nothing is
// charged.
func (b *bill) asking(g *guard, ctx context.Context) Decision {
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

// refuseQueue makes d the refusal of the first queue, unless another limit
// refuses already.
func (b *bill) refuseQueue(d *Decision, retryAfter time.Duration) {
	allowed := d.Allowed
	d.Allowed, d.RetryAfter = false, retryAfter
	for i := range b.each {
		if e, l := &b.each[i], b.charges[i].Limit; allowed && l.rule.Kind() == rule.LeakyQueue {
			e.Allowed, e.RetryAfter = false, retryAfter
			d.By, d.Quota, d.Remaining, d.ResetAfter = l, e.Quota, e.Remaining, e.ResetAfter
			return
		}
	}
}

// hold keeps an admitted request of a LeakyQueue until it is to leave, in the
// request's own goroutine. If it ends meanwhile, its place in the queue passes
// unused, and what else it was charged is given back.
func (g *guard) hold(ctx context.Context, b *bill, d *Decision) refusal {
	if most := g.mayWait(ctx); d.Delay > most {
		// Others came in between, or the Store could not be asked before. The
		// place is the last one, or was an instant ago.
		_ = b.refund(g, ctx, b.charges)
		b.refuseQueue(d, d.Delay-most)
		return queueTooLong
	}
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return notRefused
	case <-ctx.Done():
	}
	others := make([]Charge, 0, len(b.charges))
	for _, c := range b.charges {
		if c.Limit.rule.Kind() != rule.LeakyQueue {
			others = append(others, c)
		}
	}
	_ = b.refund(g, ctx, others)
	b.refuseQueue(d, d.Delay)
	return hungUp
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
