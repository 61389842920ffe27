package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/pacer"
)

//go:embed pace.lua
var paceLua string

//go:embed reserve.lua
var reserveLua string

//go:embed cancel.lua
var cancelLua string

var (
	reserveScript = NewScript(paceLua + reserveLua)
	cancelScript  = NewScript(paceLua + cancelLua)
)

var _ pacer.Reserver = (*Store)(nil)

// timerSlack is what a pace without a Burst lets out at once: what its rate
// gives in 5 ms, as pacer.Pacer.Burst says.
const timerSlack = 5 * time.Millisecond

// Reserve grants n units of key at the first instant that p allows, over all
// processes: in any interval T at most Burst + Rate × T, or evenly with
// pacer.LeakyBucket. Instants are whole microseconds of Redis's clock; Grant.Wait
// counts from the answer, so that a call leaves late by as long as the answer
// took, and never early. A wait longer than maxWait is refused with a
// *pacer.WaitError, and nothing is taken. No units are granted as soon as none
// are owed, and nothing is written.
//
// Whoever asks with another pace than the one before takes over what was used:
// units owed stay owed and units there stay there, up to the new Burst. A unit
// granted before the change keeps its instant. So processes with two Bursts, as in a
// rolling deploy, are together granted what the larger allows. With two Rates, what
// the slower one has granted for later leaves beside what the faster one grants.
//
// Grant.Cancel gives the units back as long as that changes nothing for others:
// to the bucket if nothing was granted since, else their place to whoever asks
// before that instant. Of such places 128 are kept at a time; what is given back
// beyond them is lost to the rate. After a hold, or a change of pace, nothing is given back.
// Further calls of Cancel do nothing.
//
// It fails with an error that matches pacer.ErrTooLarge if n is over a Burst that
// is set, with one that says so if the pace is not exact in Redis, and with a
// *[JunkError], or what [Store.Take] gives as Degraded, if Redis fails. A
// pacer.Pacer takes all but the first for a store that is away, and paces by itself:
// OnDegraded is told, and [Store.CheckPace] at the start. If ctx ends meanwhile the
// grant is given back.
func (s *Store) Reserve(ctx context.Context, key string, p pacer.Pace, n int64, maxWait time.Duration) (pacer.Grant, error) {
	if s.Client == nil {
		return pacer.Grant{}, s.fault(s.Check())
	}
	args, err := paceArgs(p, n)
	switch {
	case errors.Is(err, pacer.ErrTooLarge):
		return pacer.Grant{}, err // it is about this call
	case err != nil:
		return pacer.Grant{}, s.fault(err)
	}
	if p.Rate.Count <= 0 || p.Rate.Per <= 0 {
		return pacer.Grant{Cancel: noCancel}, nil
	}
	patience := min(max(int64(maxWait/time.Microsecond), 0), maxSpan)
	args = append([]string{s.time()}, append(args, strconv.FormatInt(patience, 10))...)
	g, err := s.reserve(ctx, key, args)
	if err != nil && ctx.Err() == nil && s.OnDegraded != nil && !errors.As(err, new(*pacer.WaitError)) {
		s.OnDegraded(err)
	}
	return g, err
}

// Share is how many processes keep one pace: the field Processes. While Redis
// fails, each paces itself at its share of the rate.
func (s *Store) Share() int64 { return s.processes() }

func noCancel(context.Context) error { return nil }

// time is what is passed to a script: nothing, for Redis knows it.
func (s *Store) time() string {
	if s.now == nil {
		return ""
	}
	return strconv.FormatInt(s.now(), 10)
}

// reserve asks Redis. If ctx ends first, whoever still waits for the answer
// gives the grant back.
func (s *Store) reserve(ctx context.Context, key string, args []string) (pacer.Grant, error) {
	if ctx.Done() == nil || s.Timeout < 0 {
		return s.ask(ctx, key, args)
	}
	if err := ctx.Err(); err != nil {
		return pacer.Grant{}, err
	}
	type answer struct {
		grant pacer.Grant
		err   error
	}
	answered := make(chan answer)
	go func() {
		late := context.WithoutCancel(ctx) // the Timeout ends it
		g, err := s.ask(late, key, args)
		select {
		case answered <- answer{g, err}:
		case <-ctx.Done():
			if err == nil {
				_ = g.Cancel(late) // at worst the units are lost
			}
		}
	}()
	select {
	case a := <-answered:
		return a.grant, a.err
	case <-ctx.Done():
		return pacer.Grant{}, ctx.Err()
	}
}

func (s *Store) ask(ctx context.Context, key string, args []string) (pacer.Grant, error) {
	name := s.paceKey(key)
	reply, err := s.eval(ctx, reserveScript, []string{name}, args)
	if err != nil {
		return pacer.Grant{}, err
	}
	if len(reply) == 1 && reply[0] == "j" {
		return pacer.Grant{}, &JunkError{Key: name}
	}
	if len(reply) != 3 {
		return pacer.Grant{}, errAnswer
	}
	micros, err := strconv.ParseInt(reply[1], 10, 64)
	if err != nil || micros < 0 || micros > math.MaxInt64/int64(time.Microsecond) {
		return pacer.Grant{}, errAnswer
	}
	wait := time.Duration(micros) * time.Microsecond
	if reply[0] != "1" {
		return pacer.Grant{}, &pacer.WaitError{Wait: wait, Key: key}
	}
	return pacer.Grant{Wait: wait, Cancel: s.canceler(name, reply[2])}, nil
}

// canceler gives a grant back, once.
func (s *Store) canceler(name, receipt string) func(context.Context) error {
	if receipt == "" {
		return noCancel
	}
	var done atomic.Bool
	return func(ctx context.Context) error {
		if done.Swap(true) {
			return nil
		}
		reply, err := s.eval(ctx, cancelScript, []string{name}, []string{s.time(), receipt})
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
}

func (s *Store) paceKey(key string) string { return s.prefix() + ":p:" + keyPart(key) }

// paceArgs are a pace and n units as the script wants them. What is not exact in
// it is refused here.
func paceArgs(p pacer.Pace, n int64) ([]string, error) {
	if n < 0 {
		return nil, fmt.Errorf("redisstore: Reserve of %d units: it may be 0 or more", n)
	}
	if p.Rate.Count <= 0 || p.Rate.Per <= 0 {
		return nil, nil
	}
	kind, burst := "p", p.Burst
	switch {
	case p.Shape == pacer.LeakyBucket:
		kind, burst = "e", 1
	case p.Burst <= 0:
		burst = max(1, given(p.Rate, timerSlack))
	case n > p.Burst:
		return nil, fmt.Errorf("redisstore: Reserve of %d units with a Burst of %d: it may be that at most: %w", n, p.Burst, pacer.ErrTooLarge)
	}
	x, y, ok := reduced(limiter.Rate(p.Rate))
	if !ok || x > maxExact/4 || y > maxExact/4 {
		return nil, fmt.Errorf("redisstore: a pace of %d per %v is not exact in Redis", p.Rate.Count, p.Rate.Per)
	}
	// A grant's weight is exact, and so is when it is paid for, 71 years ahead.
	units := max(burst, n)
	most := max((maxExact/2-2*x)/y, 0)
	if perMicro := maxSpan / y; perMicro < most/x {
		most = perMicro * x
	}
	if units > most {
		return nil, fmt.Errorf("redisstore: %d units at %d per %v are not exact in Redis: there may be %d at most", units, p.Rate.Count, p.Rate.Per, most)
	}
	args := make([]string, 0, 7)
	args = append(args, kind)
	for _, number := range []int64{x, y, burst, n} {
		args = append(args, strconv.FormatInt(number, 10))
	}
	return args, nil
}

// given is how many whole units a rate gives in d, which is short.
func given(r pacer.Rate, d time.Duration) int64 {
	hi, lo := bits.Mul64(uint64(r.Count), uint64(d))
	if hi >= uint64(r.Per) {
		return math.MaxInt64
	}
	units, _ := bits.Div64(hi, lo, uint64(r.Per))
	return int64(min(units, math.MaxInt64))
}
