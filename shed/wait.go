package shed

import (
	"context"
	"fmt"
	"time"
)

// Wait blocks until there is a slot, and returns the function that gives it
// back. It is for producers inside the process, which are to be slowed down and
// not refused: they wait as long as it takes, oldest first, take no place in the
// queue and are never pushed out of it. All of them together are as one tenant
// that sends Critical requests: beside one other that always asks they have half
// of the slots, and all where only lower classes do. Jobs that are to leave room
// for requests have a Gate of their own, with a small Limit.
//
// The error is not nil if ctx ends first, and then wraps its cause. release may
// be called more than once; only the first call counts. With the context of a
// request that this Gate has let in there is no wait: the slot is that request's.
func (g *Gate) Wait(ctx context.Context) (release func(), err error) {
	in := g.compiled()
	v := in.visit()
	v.ticket.Patient = true
	if why := in.enter(ctx, v); why != "" {
		in.put(v)
		return nil, fmt.Errorf("shed: the wait for a slot has ended: %w", context.Cause(ctx))
	}
	s := Slot{in, v, v.turn}
	return s.Leave, nil
}

// Entry is what a Gate must know of a request that does not come by HTTP. The
// zero value is a Critical one of nobody in particular. See the fields of [Gate].
type Entry struct {
	Tenant  string
	Known   bool
	Weight  int
	Class   Class
	Timeout time.Duration // how long the caller still waits; zero: as long as the context. Negative: no longer
	Attempt int           // zero: 1
}

// Enter lets a request in that does not come by HTTP, as Handler does: it waits
// in the queue, or is refused with a [*Refusal]. Uncontended it allocates
// nothing. Who was let in must Leave.
//
//	slot, err := gate.Enter(ctx, shed.Entry{Tenant: customer})
//	if err != nil {
//		return err
//	}
//	defer slot.Leave()
func (g *Gate) Enter(ctx context.Context, e Entry) (Slot, error) {
	in := g.compiled()
	v := in.visit()
	t := &v.ticket
	t.Tenant, t.Known, t.Weight = e.Tenant, e.Known, e.Weight
	v.class, v.attempt = e.Class.clamped(), max(e.Attempt, 1)
	v.timeout, v.hurried = e.Timeout, e.Timeout != 0
	if v.attempt > 1 && in.retriesYield {
		v.class = v.class.lower()
	}
	if why := in.enter(ctx, v); why != "" {
		err := &Refusal{Reason: why, RetryAfter: v.retryAfter}
		if why == Gone {
			err.cause = context.Cause(ctx)
		}
		in.put(v)
		return Slot{}, err
	}
	return Slot{in, v, v.turn}, nil
}

// Refusal is the error of who is not let in.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration // whole seconds; 0, with WouldMiss: coming back with as little time is of no use

	cause error
}

func (r *Refusal) Error() string {
	if r.RetryAfter == 0 {
		return fmt.Sprintf("shed: not let in (%s)", r.Reason)
	}
	return fmt.Sprintf("shed: not let in (%s), retry after %v", r.Reason, r.RetryAfter)
}

// Unwrap is the error of the context, if it was that which ended the wait.
func (r *Refusal) Unwrap() error { return r.cause }

// Slot is a place inside a Gate. The zero value is none.
type Slot struct {
	gate  *gate
	visit *visit
	turn  uint64
}

// Leave gives the slot back. Only the first call counts.
func (s Slot) Leave() {
	if s.gate == nil {
		return
	}
	s.gate.mu.Lock()
	first := s.visit.turn == s.turn
	if first {
		how := whole
		if until := s.visit.until; until != 0 && s.gate.now() >= until {
			how = givenUp
		}
		s.gate.giveBack(s.visit, how)
	}
	s.gate.mu.Unlock()
	if first {
		s.gate.put(s.visit)
	}
}

// Context returns a context for what is done within the slot: sub-calls that
// come back to the same Gate with it use the slot, instead of waiting behind it.
func (s Slot) Context(ctx context.Context) context.Context {
	if s.gate == nil {
		return ctx
	}
	m := newMark(ctx, s.gate, s.visit)
	m.turn = s.turn
	return &m
}
