package shed

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/politehttp/polite/internal/admission"
)

// visit is one request's way through a Gate. Visits are used again.
type visit struct {
	ticket  admission.Ticket
	verdict admission.Verdict // once wake has a value; of a refusal also why
	why     Reason
	wake    chan struct{} // of capacity 1: the verdict on who waits is there

	class   Class
	attempt int
	request *http.Request // nil: none
	timeout time.Duration // that the client told, if hurried
	hurried bool
	until   int64 // the context's deadline; 0: it has none

	arrived    int64
	waited     time.Duration // once it was queued
	retryAfter time.Duration // once it was refused; 0: coming back does not help
	ended      ending

	// Under gate.mu: how often the visit was used, for a mark of an earlier turn is
	// void, and what Done was told.
	turn    uint64
	done    int64 // when the work was over; 0: when the slot comes back
	refused bool  // by what the work needed
}

// ending is how the work of a visit ended.
type ending uint8

const (
	broken ending = iota // by a panic: how long it took tells nothing
	whole
	givenUp // its client left, or its deadline was over: it takes longer than it took
)

// visit is a fresh one.
func (g *gate) visit() *visit {
	if v, ok := g.visits.Get().(*visit); ok {
		return v
	}
	v := &visit{wake: make(chan struct{}, 1), attempt: 1}
	v.ticket.Value = v
	return v
}

// put keeps a visit that has ended, for another.
func (g *gate) put(v *visit) {
	t := &v.ticket
	t.Tenant, t.Known, t.Weight, t.Nested, t.Patient = "", false, 0, false, false
	v.class, v.attempt, v.request, v.hurried = Critical, 1, nil, false
	v.waited, v.retryAfter, v.ended, v.done, v.refused = 0, 0, broken, 0, false
	v.until, t.Ready = 0, 0
	g.visits.Put(v)
}

// now is the time of the Gate: nanoseconds since it was made, on the clock that
// no one sets.
func (g *gate) now() int64 { return int64(time.Since(g.epoch)) + 1 } // 0 is no time

// enter waits for a slot. "" is yes; with any other answer the visit has ended.
func (g *gate) enter(ctx context.Context, v *visit) Reason {
	now := g.now()
	v.arrived = now
	t := &v.ticket
	t.Class = admission.Class(v.class)
	t.Deadline = g.deadline(ctx, v, now)
	var outer *mark
	if !g.noSubCalls {
		outer = markFrom(ctx)
	}
	gone := ctx.Err() != nil

	g.mu.Lock()
	if gone {
		return g.refused(v, Gone, now)
	}
	t.Nested = outer.within(g)
	if g.engine.Limit() == unlimited {
		t.Deadline = 0 // it only counts
	}
	if g.engine.Limit() == 0 && !t.Nested && !t.Patient {
		g.engine.Refused(now)
		return g.refused(v, Shut, now) // waiting is of no use
	}
	verdict := g.engine.Arrive(t, now)
	if verdict == admission.Admitted && g.engine.Waiting() == 0 {
		return g.letIn(v)
	}
	if verdict == admission.Queued {
		g.shares.add(t)
	}
	g.settle(now)
	switch verdict {
	case admission.Admitted:
		return g.letIn(v)
	case admission.Queued:
		return g.await(ctx, v)
	}
	return g.refused(v, g.reason(v, verdict), now)
}

// deadline is when the answer is worth nothing any more; 0: never.
func (g *gate) deadline(ctx context.Context, v *visit, now int64) int64 {
	if v.ticket.Patient {
		return 0
	}
	at := int64(math.MaxInt64)
	if v.hurried {
		at = now + int64(min(v.timeout, mostTimeout))
	}
	if deadline, ok := ctx.Deadline(); ok {
		v.until = max(int64(deadline.Sub(g.epoch)), 1)
		at = min(at, v.until)
	}
	if at == math.MaxInt64 {
		return 0
	}
	return max(at, 1)
}

// await waits for the verdict on who is queued. It is called with the lock, and
// gives it back.
func (g *gate) await(ctx context.Context, v *visit) Reason {
	g.mu.Unlock()
	if g.hooks != nil && g.hooks.Queued != nil {
		g.tellOr(g.hooks.Queued, v, g.abandon)
	}
	told := false
	select {
	case <-v.wake:
		told = true
	case <-ctx.Done():
	}
	gone := ctx.Err() != nil
	g.mu.Lock()
	now := g.now()
	v.waited = time.Duration(now - v.arrived)
	switch {
	case gone:
		g.withdraw(v, now, told)
		return g.refused(v, Gone, now)
	case v.verdict == admission.Admitted:
		return g.letIn(v)
	}
	return g.refused(v, v.why, now)
}

// withdraw ends a visit that was queued, whatever became of it since; told: it
// knows its verdict. The lock is held.
func (g *gate) withdraw(v *visit, now int64, told bool) {
	if g.engine.Cancel(&v.ticket, now) {
		g.shares.remove(&v.ticket)
		g.settle(now)
		return
	}
	if !told {
		<-v.wake // it was sent under the lock, so it is there
	}
	if v.verdict == admission.Admitted {
		g.giveBack(v, broken)
	}
}

// letIn counts who is let in and tells the hooks. It is called with the lock,
// and gives it back.
func (g *gate) letIn(v *visit) Reason {
	g.count.admitted++
	g.mu.Unlock()
	if g.hooks != nil && g.hooks.Admitted != nil {
		g.tellOr(g.hooks.Admitted, v, g.leave)
	}
	return ""
}

// refused turns one away who is to come back when the engine says. One that has
// too little time will have no more for coming back, and that it has says nothing
// about others: a client that stayed away with all its calls would do so in vain.
func (g *gate) refused(v *visit, why Reason, now int64) Reason {
	if why != WouldMiss {
		v.retryAfter = g.engine.RetryAfter(now, rand.Float64())
	}
	return g.turnAway(v, why)
}

// turnAway counts a refusal and tells the hooks. It is called with the lock, and
// gives it back.
func (g *gate) turnAway(v *visit, why Reason) Reason {
	g.count.refused[why]++
	g.mu.Unlock()
	if g.hooks != nil && g.hooks.Refused != nil {
		g.hooks.Refused(v.event(why))
	}
	return why
}

// tellOr calls a hook, and ends the visit in the given way if that panics or
// exits the goroutine: nobody else would.
func (g *gate) tellOr(hook func(Event), v *visit, end func(*visit)) {
	told := false
	defer func() {
		if !told {
			end(v)
		}
	}()
	hook(v.event(""))
	told = true
}

// abandon ends a visit that was queued.
func (g *gate) abandon(v *visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.withdraw(v, g.now(), false)
}

// reason is why one is refused, of whom the engine says that.
func (g *gate) reason(v *visit, verdict admission.Verdict) Reason {
	why := Full
	switch {
	case verdict == admission.Late:
		return WouldMiss
	case verdict == admission.Expired:
		return Waited
	case verdict == admission.Pushed:
		why = Displaced
	}
	if g.shares.over(&v.ticket) {
		return OverShare
	}
	return why
}

// settle tells all whose turn has come, or is over, and sees to it that it is
// called again when the next one's is. The lock is held; nobody is waited for.
func (g *gate) settle(now int64) {
	for {
		t, verdict := g.engine.Next(now)
		if t == nil {
			break
		}
		v := t.Value.(*visit)
		v.verdict = verdict
		if verdict != admission.Admitted {
			v.why = g.reason(v, verdict)
		}
		g.shares.remove(t)
		v.wake <- struct{}{} // never full: one verdict a visit
	}
	due := g.engine.Due()
	if due >= g.armed || due == math.MaxInt64 {
		return
	}
	g.armed = due
	wait := time.Duration(max(due-now, 0))
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.expire)
		return
	}
	g.timer.Reset(wait)
}

// expire ends waits that have become too long. The timer calls it.
func (g *gate) expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = math.MaxInt64
	g.settle(g.now())
}

// leaveHandler is leave after a handler. An answer that comes when nobody waits
// for it any more was not in time, however the handler ended.
func (g *gate) leaveHandler(ctx context.Context, v *visit) {
	if ctx.Err() != nil {
		v.ended = givenUp
	}
	g.leave(v)
}

// leave gives the slot back, and puts the visit away.
func (g *gate) leave(v *visit) {
	g.mu.Lock()
	g.giveBack(v, v.ended)
	g.mu.Unlock()
	g.put(v)
}

// giveBack gives a slot back to whoever is next. The lock is held.
func (g *gate) giveBack(v *visit, how ending) {
	now := g.now()
	v.turn++
	if v.done != 0 {
		how = whole // as far as it matters here
	}
	if g.adaptive != nil && !g.pinned && !v.ticket.Nested && how != broken {
		g.sample(v, now, how)
	}
	if how == givenUp {
		g.engine.GaveUp(&v.ticket, now)
	} else {
		v.ticket.Ready = v.done
		g.engine.Leave(&v.ticket, now, how == whole && !v.refused)
	}
	if g.engine.Waiting() > 0 {
		g.settle(now)
	}
}

// sample tells the adaptive limit how long one took, and obeys it.
func (g *gate) sample(v *visit, now int64, how ending) {
	over := now
	if v.done != 0 {
		over = v.done
	}
	took := over - v.arrived - v.ticket.Waited()
	if how == givenUp {
		g.adaptive.GaveUp(now, took, g.engine.InFlight())
	} else {
		g.adaptive.Sample(now, took, g.engine.InFlight(), v.refused)
	}
	if n := g.adaptive.Limit(); n != g.engine.Limit() {
		g.engine.SetLimit(n)
	}
}
