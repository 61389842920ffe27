package redisstore

import (
	"context"
	_ "embed"

	"github.com/politehttp/polite/limiter"
)

//go:embed refund.lua
var refundLua string

var refundScript = NewScript(timeLua + valueLua + refundLua)

// Refund gives back what was charged, but never more than is in use, in one
// round trip, or in two as for Take. It does so although ctx has ended. A refund may have reached Redis
// although it returns an error; it is not sent again.
func (s *Store) Refund(ctx context.Context, charges ...limiter.Charge) error {
	if err := s.check(charges); err != nil || len(charges) == 0 {
		return err
	}
	if apart(charges) {
		return s.refundApart(ctx, charges)
	}
	st, err := s.stack(charges)
	if err != nil {
		return err
	}
	return s.refund(ctx, st)
}

func (s *Store) refund(ctx context.Context, st *stack) error {
	_, err := s.send(context.WithoutCancel(ctx), refundScript, st)
	s.forget(st) // who was refused, until now, may be admitted
	if err != nil {
		s.refundLocal(st)
	}
	return err
}
