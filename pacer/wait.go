package pacer

import (
	"context"
	"time"

	"github.com/politehttp/polite/observe"
)

// waiter is a call that may have to wait. It takes its units itself, when it
// runs and may leave: nobody takes them for it ahead of time, so however late
// it wakes, what leaves is what was due.
type waiter struct {
	places  []place
	one     [1]place
	class   Priority
	rank    rank   // of class, or promoted
	arrival uint64 // in the room
	since   time.Time
	until   time.Time     // since and MaxWait; zero: unbounded
	end     time.Time     // when it must have left for its context's deadline; zero: none
	eta     time.Time     // when it may leave, as expected at since
	ready   chan struct{} // somebody thinks that it may leave, or refused it
	why     observe.Reason
	last    *line // the one that w waits for, or waited for last, because of why

	refused error // by a hold or a rate that came while it waited: it is out of its lines
	granted bool  // by the stores of its shared lines

	seen    uint64 // the round of what follows
	verdict verdict
	missing *line // one that is not ready
	soon    int64 // out of patience: the time until all are ready; else never
}

// claim adds a claim. Two keys may share a line, if keys overflow.
func (w *waiter) claim(l *line, c Claim) {
	for i := range w.places {
		if p := &w.places[i]; p.line == l {
			p.n = later(p.n, c.N)
			return
		}
	}
	w.places = append(w.places, place{line: l, key: c.Key, n: c.N})
}

// call tells w to look whether it may leave.
func (w *waiter) call() {
	select {
	case w.ready <- struct{}{}:
	default: // told already
	}
}

// wait makes w leave as soon as it may. The room is locked, and is not on
// return.
func (w *waiter) wait(ctx context.Context, r *room, now time.Time) (release func(), err error) {
	w.class = priorityOf(ctx)
	full, err := w.admit(ctx, now)
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if w.unhindered(now) {
		for i := range w.places {
			l := w.places[i].line
			t := l.pacer.clock(now)
			l.take(t, w.places[i].n)
			l.refresh(t)
		}
		r.mu.Unlock()
		return w.report(ctx, now), nil
	}
	w.ready = make(chan struct{}, 1)
	if w.rank = interactive; w.class == Background {
		w.rank = background
	}
	r.arrivals++
	w.arrival = r.arrivals
	for i := range w.places {
		p := &w.places[i]
		p.waiter = w
		p.line.push(p)
		p.line.free.Store(false)
	}
	w.pacers(func(p *Pacer) { p.keys.waiting++ })
	var expiry <-chan time.Time
	for {
		if w.refused != nil {
			r.mu.Unlock()
			return nil, w.refused
		}
		r.round++
		may := r.judge(w, now) == mayLeave
		switch {
		case may && w.tooLate(now): // for its answer, and others may still be in time
			return nil, w.giveUp(r, now, w.late(now, now.Sub(w.since), w.places[0].key, w.why))
		case may && !w.asks(now):
			return w.leave(ctx, r, now), nil
		case full:
			return nil, w.giveUp(r, now, ErrQueueFull)
		case may:
			if r, now, err = w.ask(ctx, r, now); err != nil {
				return nil, w.giveUp(r, now, err)
			}
			continue
		}
		r.call(w, now)
		r.mu.Unlock()
		if expiry == nil && w.expires() {
			t := time.NewTimer(w.until.Sub(now))
			defer t.Stop()
			expiry = t.C
		}
		late := false
		select {
		case <-w.ready:
		case <-expiry:
			late = true
		case <-ctx.Done():
			r, now = w.relock()
			return nil, w.giveUp(r, now, endOf(ctx))
		}
		r, now = w.relock()
		if late {
			if r.round++; w.refused != nil || r.judge(w, now) != mayLeave {
				wait, key, why := w.expect(now)
				return nil, w.giveUp(r, now, w.late(now, wait, key, why))
			}
		}
	}
}

// relock locks the room for one that slept, or was away.
func (w *waiter) relock() (*room, time.Time) {
	p := w.places[0].line.pacer
	if p.lag != nil {
		p.lag()
	}
	r := p.lock()
	return r, time.Now()
}

// unhindered tells whether w may leave with nobody waiting in any of its lines.
func (w *waiter) unhindered(now time.Time) bool {
	for i := range w.places {
		p := &w.places[i]
		l := p.line
		t := l.pacer.clock(now)
		if at, _ := l.soonest(t, 0, p.n); at > t || l.calls() > 0 || l.full() || l.shared(t) {
			return false
		}
	}
	return true
}

// admit refuses w if it is too large or would wait too long, and tells whether
// the queue has no place for it.
func (w *waiter) admit(ctx context.Context, now time.Time) (full bool, err error) {
	for i := range w.places {
		p := &w.places[i]
		l := p.line
		if !l.bucket.fits(p.n) {
			return false, &tooLarge{p.n, l.bucket.burst}
		}
		l.settle(l.pacer.clock(now))
		full = full || l.pacer.maxQueue() >= 0 && l.pacer.keys.waiting >= l.pacer.maxQueue()
		if most := l.pacer.maxWait(); most >= 0 {
			if until := w.since.Add(most); w.until.IsZero() || until.Before(w.until) {
				w.until = until
			}
		}
	}
	wait, key, why := w.expect(now)
	if deadline, ok := ctx.Deadline(); ok {
		w.end = w.leaveBy(deadline)
	}
	if w.tooLate(now.Add(wait)) {
		soon, ok := w.hasten(now)
		if !ok {
			return false, w.late(now, wait, key, why)
		}
		wait = soon
	}
	w.eta = now.Add(wait)
	return full, nil
}

// hasten takes the jitter out of what w waits for, if w is in time
// then, and returns how long it is going to wait.
func (w *waiter) hasten(now time.Time) (wait time.Duration, ok bool) {
	was := make([]jitter, len(w.places))
	cut := false
	for i := range w.places {
		l := w.places[i].line
		was[i] = l.hasten(l.pacer.clock(now))
		cut = cut || was[i] != (jitter{})
	}
	if !cut {
		return 0, false
	}
	wait, _, _ = w.expect(now)
	ok = !w.tooLate(now.Add(wait))
	for i := range w.places {
		l := w.places[i].line
		if !ok {
			l.relax(was[i])
		}
		l.settle(l.pacer.clock(now))
	}
	return wait, ok
}

// tooLate tells whether w, leaving at an instant, would outlive its context or
// MaxWait. At its very end a context has ended.
func (w *waiter) tooLate(at time.Time) bool {
	return !w.end.IsZero() && !at.Before(w.end) || !w.until.IsZero() && at.After(w.until)
}

// refuse sends w away.
func (w *waiter) refuse(r *room, now time.Time, err error) {
	w.refused = err
	w.quit(r, now)
	w.call()
}

// expect is how long w, which is in no queue yet, is going to wait, given who
// is before it. How long others stay in flight is not known, and counts as
// nothing; so does what is waiting for another line too, and is later there.
func (w *waiter) expect(now time.Time) (wait time.Duration, key string, why observe.Reason) {
	for i := range w.places {
		p := &w.places[i]
		d, reason := p.line.expect(now, w.class, p.n, p.waiter != nil)
		if d > wait || why == "" {
			wait, key, why = max(d, wait), p.key, reason
		}
	}
	return wait, key, why
}

// expect is how long n units of the class are going to wait in l; first, if
// they are in its queue already.
func (l *line) expect(now time.Time, class Priority, n int64, first bool) (wait time.Duration, why observe.Reason) {
	t := l.pacer.clock(now)
	at, why := l.soonest(t, 0, n)
	if why == "" && l.full() {
		why = observe.InFlight
	}
	switch {
	case first || l.calls() == 0:
	case l.multi == 0:
		at, why = l.soonest(t, l.ahead(class), n)
	default:
		for range 8 {
			by, because := l.soonest(t, l.aheadBy(class, now.Add(time.Duration(at-t))), n)
			if by <= at {
				break
			}
			at, why = by, because
		}
	}
	return time.Duration(at - t), why
}

// late is the refusal of w, which would leave too late.
func (w *waiter) late(now time.Time, wait time.Duration, key string, why observe.Reason) *WaitError {
	e := &WaitError{Wait: wait, Key: key, Reason: why}
	if !w.until.IsZero() && !now.Add(wait).Before(w.until) && (w.end.IsZero() || w.until.Before(w.end)) {
		e.MaxWait = w.until.Sub(w.since)
	}
	return e
}

// expires tells whether MaxWait may end before the context does.
func (w *waiter) expires() bool {
	return !w.until.IsZero() && (w.end.IsZero() || w.until.Before(w.end))
}

// leave takes what w claims and lets it go. It unlocks the room.
func (w *waiter) leave(ctx context.Context, r *room, now time.Time) func() {
	for i := range w.places {
		p := &w.places[i]
		p.line.take(p.line.pacer.clock(now), p.n)
	}
	w.quit(r, now)
	for i := range w.places {
		if next := w.places[i].line.left(w.class); next != nil {
			next.promote(r, now)
		}
	}
	r.mu.Unlock()
	return w.report(ctx, now)
}

// report tells the hooks that w left, and returns what counts it out. No lock
// is held. A claim that was ready when another was not is said to have waited
// for nothing.
func (w *waiter) report(ctx context.Context, now time.Time) (release func()) {
	release = w.release()
	h := observe.From(ctx)
	if h == nil || h.Paced == nil {
		return release
	}
	wait := now.Sub(w.since)
	all := make([]observe.Paced, 0, 2)
	for i := range w.places {
		p := &w.places[i]
		e := observe.Paced{Key: p.key, N: p.n, At: now}
		if wait > 0 && p.line == w.last {
			e.Wait, e.Reason = wait, w.why
		}
		all = append(all, e)
	}
	report(ctx, h, release, all...)
	return release
}

// report tells a hook of grants. If it panics the call is over, for its caller
// never gets release.
func report(ctx context.Context, h *observe.Hooks, release func(), all ...observe.Paced) {
	told := false
	defer func() {
		if !told {
			release()
		}
	}()
	for _, e := range all {
		h.Paced(ctx, e)
	}
	told = true
}

// promote puts w before all Interactive calls, in all its lines.
func (w *waiter) promote(r *room, now time.Time) {
	for i := range w.places {
		w.places[i].line.remove(&w.places[i])
	}
	w.rank = promoted
	for i := range w.places {
		w.places[i].line.push(&w.places[i])
	}
	r.wake(w, now)
}

// giveUp ends the wait with err. It unlocks the room.
func (w *waiter) giveUp(r *room, now time.Time, err error) error {
	if w.refused == nil {
		w.quit(r, now)
	} else {
		err = w.refused
	}
	r.mu.Unlock()
	return err
}

// quit takes w out of its lines, and calls who is next in each.
func (w *waiter) quit(r *room, now time.Time) {
	for i := range w.places {
		p := &w.places[i]
		p.line.remove(p)
		if p.line.turn == w {
			p.line.turn = nil
		}
	}
	w.pacers(func(p *Pacer) {
		p.keys.waiting--
		p.loosen()
	})
	r.wake(w, now)
	for i := range w.places {
		l := w.places[i].line
		l.refresh(l.pacer.clock(now))
	}
}

// release returns what counts w out of every line.
func (w *waiter) release() func() {
	if len(w.places) == 1 {
		return w.places[0].line.leave()
	}
	var bounded []*line
	for i := range w.places {
		if l := w.places[i].line; l.release != nil {
			bounded = append(bounded, l)
		}
	}
	switch len(bounded) {
	case 0:
		return nothing
	case 1:
		return bounded[0].release
	}
	return func() {
		for _, l := range bounded {
			l.release()
		}
	}
}

// pacers calls f for each pacer of w.
func (w *waiter) pacers(f func(*Pacer)) {
next:
	for i := range w.places {
		for j := range i {
			if w.places[j].line.pacer == w.places[i].line.pacer {
				continue next
			}
		}
		f(w.places[i].line.pacer)
	}
}
