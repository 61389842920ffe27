package redisstore

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"strconv"
	"time"
)

//go:embed hold.lua
var holdLua string

var holdScript = NewScript(paceLua + holdLua)

const (
	maxHold    = 366 * 24 * time.Hour
	holdJitter = 10 // a hold ends up to a tenth later...
	mostJitter = 30 * time.Second
)

// Hold makes sure that nobody is granted an instant of key before d from now. It
// ends up to a tenth later, at random and at most 30 s, and the bucket is then
// empty but for one unit: clients that were told the same instant must not come
// all at once. A hold gets no shorter, and is a year at most. Others learn of it
// when they next ask; who has been granted an instant keeps it.
func (s *Store) Hold(ctx context.Context, key string, d time.Duration) error {
	if s.Client == nil {
		return s.Check()
	}
	if d <= 0 {
		return nil
	}
	d = min(d, maxHold)
	d += time.Duration(rand.Float64() * float64(min(d/holdJitter, mostJitter)))
	micros := (d + time.Microsecond - 1) / time.Microsecond
	name := s.paceKey(key)
	reply, err := s.eval(ctx, holdScript, []string{name}, []string{s.time(), strconv.FormatInt(int64(micros), 10)})
	switch {
	case err != nil:
		return err
	case len(reply) != 1:
		return errAnswer
	case reply[0] == "j":
		return &JunkError{Key: name}
	}
	return nil
}
