package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/limiter"
)

//go:embed time.lua
var timeLua string

//go:embed quick.lua
var quickLua string

//go:embed take.lua
var takeLua string

//go:embed one.lua
var oneLua string

//go:embed many.lua
var manyLua string

// takeScript makes one decision, takeManyScript several. Both try quick first.
var (
	takeParts      = timeLua + quickLua + "local function take(KEYS, ARGV)\n" + valueLua + takeLua + "end\n"
	takeScript     = NewScript(takeParts + oneLua)
	takeManyScript = NewScript(takeParts + manyLua)
)

// Take charges all of charges, or none if one does not fit, in one round trip;
// limits that are Global, beside others, need a second one. No charges are
// admitted, by no limit.
//
// It fails, and charges nothing, if a charge has no limit or a negative cost, if
// a limit is not exact in Redis, or two have one name, if [Store.Tag] puts the
// charges on several servers, and if ctx has ended. But for the last these are
// faults of the program, of which OnDegraded is told, since whoever calls may take
// them for a store that fails: a limiter.Guard does, and answers as the limits'
// OnFailure says. If ctx ends while Redis is asked the error is ctx's, and whether
// anything was charged is not known: who cares refunds it.
//
// That Redis fails is no error: the limits' OnFailure then answers, and the
// decision says Degraded.
func (s *Store) Take(ctx context.Context, charges ...limiter.Charge) (limiter.Decision, error) {
	if err := s.check(charges); err != nil {
		return limiter.Decision{}, s.fault(err)
	}
	if err := ctx.Err(); err != nil {
		return limiter.Decision{}, err
	}
	if len(charges) == 0 {
		return limiter.Decision{Allowed: true}, nil
	}
	if apart(charges) {
		h, err := s.halves(charges)
		if err != nil {
			return limiter.Decision{}, s.fault(err)
		}
		return s.takeApart(ctx, h)
	}
	st, err := s.stack(charges)
	if err != nil {
		return limiter.Decision{}, s.fault(err)
	}
	return s.decide(ctx, st)
}

// fault tells OnDegraded of what a program does wrong, and returns it: it would
// go unnoticed, as callers may take any error for a store that fails.
func (s *Store) fault(err error) error {
	if s.OnDegraded != nil {
		s.OnDegraded(err)
	}
	return err
}

// check says what is wrong with charges.
func (s *Store) check(charges []limiter.Charge) error {
	if s.Client == nil {
		return s.Check()
	}
	for i, c := range charges {
		switch {
		case c.Limit == nil:
			return fmt.Errorf("redisstore: Charge %d of %d has no Limit", i+1, len(charges))
		case c.Limit.Name() == "":
			return fmt.Errorf("redisstore: Charge %d of %d has a Limit that no constructor made", i+1, len(charges))
		case c.Cost < 0:
			return fmt.Errorf("redisstore: Charge %d of %d, to limit %q, has Cost %d: it may be 0 or more; Refund gives back", i+1, len(charges), c.Limit.Name(), c.Cost)
		}
	}
	return nil
}

// decide asks what is known here, then Redis, then the limits' policies.
func (s *Store) decide(ctx context.Context, st *stack) (limiter.Decision, error) {
	sent := time.Now()
	if d, ok := s.refusedNear(st, sent); ok {
		return d, nil
	}
	s.mark(st)
	a, err := s.send(ctx, takeScript, st)
	if err != nil {
		if ended := ctx.Err(); ended != nil {
			return limiter.Decision{}, ended // who has left is told nothing else
		}
		return s.degraded(ctx, st, err), nil
	}
	d := st.decision(a.levels, a.now, a.charged)
	s.remember(st, a, &d, sent)
	return d, nil
}

// An answer is what the script take has said.
type answer struct {
	charged bool
	now     int64   // by the clock of Redis, in microseconds
	levels  []level // before anything was charged; one for each seat
}

// send runs a script on the seats. If the clock of Redis is in another period
// of the calendar than this process, it asks once again.
func (s *Store) send(ctx context.Context, script *Script, st *stack) (answer, error) {
	for again := false; ; again = true {
		reply, err := s.eval(ctx, script, st.keys, s.args(st))
		if err != nil {
			return answer{}, err
		}
		a, outside, err := st.parse(reply)
		if script == takeScript && err == nil && !outside && a.levels == nil {
			err = errAnswer
		}
		if !outside || err != nil {
			return a, err
		}
		s.skew.Store(a.now*int64(time.Microsecond) - time.Now().UnixNano())
		if again {
			return answer{}, errOutside
		}
	}
}

// args are those of take and of refund.
func (s *Store) args(st *stack) []string {
	now := ""
	if s.now != nil {
		now = strconv.FormatInt(s.now(), 10)
	}
	args := append(st.args, now)
	st.args = nil // who asks again makes others: a call may still read these
	for i := range st.seats {
		c := &st.seats[i]
		charge := c.charge(min(c.cost, maxExact-1))
		if c.rule.Kind() == rule.Calendar {
			charge += c.ends.about(c.rule, s.redisTime())
		}
		args = append(args, c.specFor(c.key), charge)
	}
	if st.asks {
		args = append(args, "")
	}
	return args
}

// redisTime guesses what the clock of Redis shows, in nanoseconds.
func (s *Store) redisTime() int64 {
	if s.now != nil {
		return s.now() * 1000
	}
	return time.Now().UnixNano() + s.skew.Load()
}

// parse reads the answer of take or refund: in one piece, or with the value of each
// key apart. It may be outside of the calendar's periods, with the time alone.
func (st *stack) parse(reply []string) (a answer, outside bool, err error) {
	if len(reply) != 1 && len(reply) != 1+len(st.seats) {
		return a, false, errAnswer
	}
	text := reply[0]
	switch {
	case text == "":
		return a, false, errAnswer
	case text == "r": // refunded
		return a, false, nil
	case text[0] == 'j':
		n, err := strconv.Atoi(text[1:])
		if err != nil || n < 1 || n > len(st.keys) {
			return a, false, errAnswer
		}
		return a, false, &JunkError{Key: st.keys[n-1]}
	}
	told, rest, _ := strings.Cut(text[1:], ";")
	seconds, micros, _ := strings.Cut(told, ",")
	sec, err1 := strconv.ParseInt(seconds, 10, 64)
	mic, err2 := strconv.ParseInt(micros, 10, 64)
	if err1 != nil || err2 != nil {
		return a, false, errAnswer
	}
	a.now = sec*1e6 + mic
	switch text[0] {
	case 'o':
		return a, true, nil
	case '1':
		a.charged = true
	case '0':
	default:
		return a, false, errAnswer
	}
	a.levels = make([]level, len(st.seats))
	for i := range st.seats {
		if len(reply) > 1 {
			if rest != "" {
				return a, false, errAnswer
			}
			rest = reply[1+i]
		}
		if a.levels[i], rest, err = st.seats[i].parseLevel(rest, st.seats[i].key); err != nil {
			return a, false, err
		}
	}
	if rest != "" {
		return a, false, errAnswer
	}
	return a, false, nil
}

// decision says of each charge what the levels before it mean, and of all what
// they come to.
func (st *stack) decision(levels []level, now int64, charged bool) limiter.Decision {
	if len(st.charges) == 1 {
		c := &st.seats[0]
		return c.decision(c.verdict(levels[0], c.key, now, c.cost))
	}
	of := make([]limiter.Decision, len(st.seats))
	for i := range st.seats {
		c := &st.seats[i]
		if charged {
			of[i] = c.decision(c.verdict(levels[i], c.key, now, c.cost))
		} else {
			of[i] = c.unmade(levels[i], now)
		}
	}
	return st.join(of, charged)
}

// unmade is the decision on a charge that was not made: it is refused, or it
// fits and another one was refused.
func (c *seat) unmade(l level, now int64) limiter.Decision {
	v := c.verdict(l, c.key, now, c.cost)
	if v.Retry == 0 && c.cost > 0 {
		v = c.verdict(l, c.key, now, 0)
	}
	return c.decision(v)
}

// join makes one decision of those on the seats.
func (st *stack) join(of []limiter.Decision, allowed bool) limiter.Decision {
	each := of
	if st.of != nil {
		each = make([]limiter.Decision, len(st.charges))
		for i, at := range st.of {
			each[i] = of[at]
			each[i].By = st.charges[i].Limit
		}
	}
	return joined(each, allowed)
}

// joined makes one decision of those on the charges.
func joined(each []limiter.Decision, allowed bool) limiter.Decision {
	by, delay := &each[0], time.Duration(0)
	for i := range each {
		e := &each[i]
		delay = max(delay, e.Delay)
		if allowed && tighter(e, by) || !allowed && refusesLonger(e, by) {
			by = e
		}
	}
	d := *by
	d.Delay, d.Each = delay, each
	return d
}

func refusesLonger(a, b *limiter.Decision) bool {
	return !a.Allowed && (b.Allowed || a.RetryAfter > b.RetryAfter)
}

// tighter says that a has the smaller part of its quota left.
func tighter(a, b *limiter.Decision) bool {
	hi, lo := bits.Mul64(uint64(a.Remaining), uint64(b.Quota))
	hi2, lo2 := bits.Mul64(uint64(b.Remaining), uint64(a.Quota))
	return hi < hi2 || hi == hi2 && lo < lo2
}
