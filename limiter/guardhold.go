package limiter

import (
	"context"
	"time"
)

// hold keeps an admitted request of a LeakyQueue until it is to leave, in the
// request's own goroutine. If it may not wait so long, the charges are given
// back and d becomes a refusal.
func (g *guard) hold(ctx context.Context, b *bill, d *Decision) refusal {
	why := g.mayWait(ctx, d)
	if why == notRefused {
		defer g.held.Add(-1)
		timer := time.NewTimer(d.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			return notRefused
		case <-ctx.Done():
			why = hungUp
		}
	}
	_ = b.refund(g, ctx)
	d.Allowed = false
	for i := range b.each {
		if e := &b.each[i]; e.Delay == d.Delay {
			e.Allowed, e.RetryAfter = false, d.RetryAfter
			d.By, d.Quota, d.Remaining, d.ResetAfter = b.charges[i].Limit, e.Quota, e.Remaining, e.ResetAfter
			break
		}
	}
	return why
}

// mayWait takes a place among the held, or says why not and, in d, how long to
// stay away: until the queue is short enough to be waited in.
func (g *guard) mayWait(ctx context.Context, d *Decision) refusal {
	if g.maxDelay >= 0 && d.Delay > g.maxDelay {
		d.RetryAfter = d.Delay - g.maxDelay
		return queueTooLong
	}
	if end, ok := ctx.Deadline(); ok {
		if room := time.Until(end); d.Delay > room {
			d.RetryAfter = d.Delay - max(room, 0)
			return queueTooLong
		}
	}
	if n := g.held.Add(1); g.maxHeld >= 0 && n > int64(g.maxHeld) {
		g.held.Add(-1)
		// All who are held now have left by then, whatever queue they are in.
		d.RetryAfter = g.maxDelay
		if g.maxDelay < 0 {
			d.RetryAfter = d.Delay
		}
		return tooManyHeld
	}
	d.RetryAfter = d.Delay // if it hangs up
	return notRefused
}
