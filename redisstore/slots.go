package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/politehttp/polite/limiter"
)

// A Redis Cluster spreads keys over its servers by what stands between braces in
// their names, the tag, and a script can only use keys of one. All or none is
// therefore certain for charges with one tag. A limit that everybody shares has
// no place beside each tenant: the Global limits have a tag of their own, and
// who charges some of them beside others makes two steps, the first of which is
// taken back if the second refuses.

// globalTag follows the Prefix in the tag of Global limits.
const globalTag = ":global"

// tagOf returns the tag of a charge.
func (s *Store) tagOf(c *limiter.Charge) string {
	if c.Limit.Global {
		return s.prefix() + globalTag
	}
	if s.Tag != nil {
		if tag := s.Tag(*c); tag != "" {
			return keyPart(tag)
		}
	}
	return s.prefix()
}

// crossing is why two charges cannot be made in one decision.
func crossing(a, b *limiter.Charge, tagA, tagB string) error {
	return fmt.Errorf("redisstore: limits %q and %q in one decision, but Store.Tag says %q and %q: only charges with one tag can be made all or none, so give them one, or set Global for a limit that everybody shares",
		a.Limit.Name(), b.Limit.Name(), tagA, tagB)
}

// apart reports whether charges take two steps: some are to Global limits, and
// some are not.
func apart(charges []limiter.Charge) bool {
	for i := range charges {
		if charges[i].Limit.Global != charges[0].Limit.Global {
			return true
		}
	}
	return false
}

// halves are the charges of a decision that takes two steps.
type halves struct {
	own, global half
	isGlobal    []bool // of each charge
}

// A half is what one step charges.
type half struct {
	*stack
	decision limiter.Decision
	answer   answer // of Redis; without levels if it has given none
	sent     time.Time
}

func (s *Store) halves(charges []limiter.Charge) (*halves, error) {
	h := &halves{isGlobal: make([]bool, len(charges))}
	var own, global []limiter.Charge
	for i, c := range charges {
		if h.isGlobal[i] = c.Limit.Global; c.Limit.Global {
			global = append(global, c)
		} else {
			own = append(own, c)
		}
	}
	var err error
	if h.own.stack, err = s.stack(own); err != nil {
		return nil, err
	}
	h.global.stack, err = s.stack(global)
	return h, err
}

// takeApart charges the Global limits after the others, for who is refused by a
// limit of his own must not use up what is everybody's. All that it does for one
// decision has the time of one.
func (s *Store) takeApart(ctx context.Context, h *halves) (limiter.Decision, error) {
	limited, cancel := s.limited(ctx)
	defer cancel()

	if known, other := s.knownHalf(h); known != nil {
		// Nothing is charged only to be given back.
		s.inquire(ctx, limited, other, known)
		return s.refusal(ctx, h)
	}
	s.charge(ctx, limited, &h.own)
	if !h.own.decision.Allowed {
		s.inquire(ctx, limited, &h.global, &h.own)
		return s.refusal(ctx, h)
	}
	if ctx.Err() == nil {
		s.charge(ctx, limited, &h.global)
	}
	if err := ctx.Err(); err != nil {
		s.takeBack(ctx, limited, &h.own)
		return limiter.Decision{}, err
	}
	if !h.global.decision.Allowed {
		s.takeBack(ctx, limited, &h.own)
		return s.refusal(ctx, h)
	}
	s.rememberHalf(&h.own, &h.own.decision)
	s.rememberHalf(&h.global, &h.global.decision)
	return h.decision(), nil
}

// limited ends with the time of a decision.
func (s *Store) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case s.Timeout < 0:
		return ctx, func() {}
	case s.Timeout == 0:
		return context.WithTimeout(ctx, defaultTimeout)
	}
	return context.WithTimeout(ctx, s.Timeout)
}

// knownHalf decides what is known here. It returns a half that refuses, and the
// other one; nil if no half does.
func (s *Store) knownHalf(h *halves) (known, other *half) {
	now := time.Now()
	for _, pair := range [...][2]*half{{&h.own, &h.global}, {&h.global, &h.own}} {
		if d, ok := s.refusedNear(pair[0].stack, now); ok {
			pair[0].decision = d
			return pair[0], pair[1]
		}
	}
	return nil, nil
}

// charge makes the charges of one half.
func (s *Store) charge(ctx, limited context.Context, h *half) {
	h.sent = time.Now()
	s.mark(h.stack)
	a, err := s.sendLimited(ctx, limited, takeScript, h.stack)
	if err != nil {
		if ctx.Err() != nil {
			return // and is told nothing else
		}
		h.decision = s.degraded(ctx, h.stack, err)
		return
	}
	h.answer = a
	h.decision = h.stack.decision(a.levels, a.now, a.charged)
}

// inquire finds out what a half would say while the other one refuses, without
// charging it.
func (s *Store) inquire(ctx, limited context.Context, h, refusing *half) {
	if s.NearKeys >= 0 {
		if all, _ := s.recall(nil, h.stack, time.Now()); all != nil {
			h.decision = h.join(h.recalled(all, time.Now()), false)
			return
		}
	}
	err := refusing.decision.Degraded
	if err == nil {
		h.sent = time.Now()
		s.mark(h.stack)
		h.answer, err = s.sendLimited(ctx, limited, takeScript, h.asking())
	}
	if err == nil {
		h.decision = h.unmade(h.answer)
		return
	}
	h.answer = answer{}
	of := make([]limiter.Decision, len(h.seats))
	for i := range h.seats {
		l := h.seats[i].limit
		of[i] = limiter.Decision{Allowed: true, By: l, Quota: l.Quota(), Remaining: l.Quota(), Degraded: err}
	}
	h.decision = h.join(of, true)
}

// asking is the stack, but charges nothing. When there will be room depends on the
// costs, so these stay.
func (st *stack) asking() *stack {
	asking := *st
	asking.asks = true
	return &asking
}

// unmade is the decision of a half that was not charged, or no longer is.
func (h *half) unmade(a answer) limiter.Decision {
	of := make([]limiter.Decision, len(h.seats))
	allowed := true
	for i := range h.seats {
		of[i] = h.seats[i].unmade(a.levels[i], a.now)
		allowed = allowed && of[i].Allowed
	}
	return h.join(of, allowed)
}

// takeBack gives back what a half was charged, and waits for it as long as the
// decision has time. If Redis fails just then the units stay charged.
func (s *Store) takeBack(ctx, limited context.Context, h *half) {
	if h.decision.Degraded != nil {
		s.refundLocal(h.stack) // whether Redis has charged anything is not known
		return
	}
	if !h.answer.charged {
		return
	}
	done := make(chan error, 1)
	go func() { // the Timeout ends it
		_, err := s.send(context.WithoutCancel(ctx), refundScript, h.stack)
		s.forget(h.stack)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil { // what Redis said before the charge is true again, if nobody else has dropped it
			for i := range h.seats {
				h.seats[i].mark++
			}
		}
	case <-limited.Done():
	}
	h.decision = h.unmade(h.answer)
}

// refusal is the decision of two halves, one of which refuses.
func (s *Store) refusal(ctx context.Context, h *halves) (limiter.Decision, error) {
	if err := ctx.Err(); err != nil {
		return limiter.Decision{}, err
	}
	d := h.decision()
	s.rememberHalf(&h.own, &d)
	s.rememberHalf(&h.global, &d)
	return d, nil
}

// rememberHalf keeps what Redis has said for as long as d refuses.
func (s *Store) rememberHalf(h *half, d *limiter.Decision) {
	if h.answer.levels != nil {
		s.remember(h.stack, h.answer, d, h.sent)
	}
}

// decision is what the halves come to.
func (h *halves) decision() limiter.Decision {
	each := make([]limiter.Decision, 0, len(h.isGlobal))
	var at [2]int
	for _, global := range h.isGlobal {
		from, i := &h.own, &at[0]
		if global {
			from, i = &h.global, &at[1]
		}
		if from.decision.Each == nil {
			each = append(each, from.decision)
		} else {
			each = append(each, from.decision.Each[*i])
		}
		*i++
	}
	own, global := &h.own.decision, &h.global.decision
	d := joined(each, own.Allowed && global.Allowed)
	switch {
	case !global.Allowed && (own.Allowed || global.RetryAfter > own.RetryAfter):
		d.Degraded = global.Degraded
	case !own.Allowed || own.Degraded != nil:
		d.Degraded = own.Degraded
	default:
		d.Degraded = global.Degraded
	}
	return d
}

// sendLimited is send, but no longer than the decision lasts.
func (s *Store) sendLimited(ctx, limited context.Context, script *Script, st *stack) (answer, error) {
	a, err := s.send(limited, script, st)
	if err != nil && limited.Err() != nil && ctx.Err() == nil && errors.Is(err, limited.Err()) {
		err = ErrTimeout
	}
	return a, err
}

// refundApart gives back to both halves, to each in a step of its own.
func (s *Store) refundApart(ctx context.Context, charges []limiter.Charge) error {
	h, err := s.halves(charges)
	if err != nil {
		return err
	}
	return errors.Join(s.refund(ctx, h.own.stack), s.refund(ctx, h.global.stack))
}
