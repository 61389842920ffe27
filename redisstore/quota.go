package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/politehttp/polite/quota"
)

//go:embed count.lua
var countLua string

//go:embed spend.lua
var spendLua string

//go:embed settle.lua
var settleLua string

var (
	spendScript  = NewScript(countLua + spendLua)
	settleScript = NewScript(countLua + settleLua)
)

var _ quota.Store = (*Store)(nil)

// A count outlives its period by the length of it, but by no less and no more
// than this: so long a clock may be slow and still find it.
const (
	minAfterlife = time.Minute
	maxAfterlife = 24 * time.Hour
)

// settleTimeout ends a Settle if the Store has no Timeout, for its caller does
// not.
const settleTimeout = time.Second

// maxEnd is when a period may end: the year 9999.
const maxEnd = 253402300799000

var errNegative = errors.New("redisstore: Spend of a negative amount: it may be 0 or more; Settle gives back")

// Spend adds n to a count, in one round trip, if the sum is at most t.Limit, as
// [quota.Store] says. Counts are exact up to 2^53 (9 × 10^15): a limit above that
// is an error unless it is math.MaxInt64, unbounded, and so is what would make a
// count larger. It is sent once: after an error n may have been spent, but
// nothing was granted. A Redis that fails is an error, and so a quota refuses;
// OnDegraded is told.
//
// A count is kept until its period has ended by Redis's clock and for as long
// again, from a minute to a day; one without an end is kept for ever. A Redis
// that has lost its memory, or thrown counts out (maxmemory-policy), has
// forgotten what was spent.
func (s *Store) Spend(ctx context.Context, t quota.Tally, n int64) (used int64, granted bool, err error) {
	defer s.tell(ctx, &err)
	switch {
	case n < 0:
		return 0, false, errNegative
	case t.Limit > maxExact && t.Limit != math.MaxInt64:
		return 0, false, fmt.Errorf("redisstore: quota %q: Limit is %d: Redis counts exactly up to %d", t.Quota, t.Limit, int64(maxExact))
	}
	limit := ""
	if t.Limit != math.MaxInt64 {
		limit = strconv.FormatInt(max(t.Limit, 0), 10)
	}
	over, after, err := lifeOf(&t)
	if err != nil {
		return 0, false, err
	}
	if n > maxExact {
		if limit == "" {
			return 0, false, tooMany(&t)
		}
		n, limit = maxExact, "0" // it is over any limit
	}
	return s.count(ctx, spendScript, &t, strconv.FormatInt(n, 10), limit, over, after)
}

// Settle adds delta to a count and raises it to atLeast, in one round trip, as
// [quota.Store] says. A count above 2^53 is an error, and nothing is changed. It
// is sent once: after an error the count may have been changed.
func (s *Store) Settle(ctx context.Context, t quota.Tally, delta, atLeast int64) (used int64, err error) {
	defer s.tell(ctx, &err)
	if delta > maxExact || atLeast > maxExact {
		return 0, tooMany(&t)
	}
	over, after, err := lifeOf(&t)
	if err != nil {
		return 0, err
	}
	if s.Timeout < 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settleTimeout)
		defer cancel()
	}
	delta, atLeast = max(delta, -maxExact), max(atLeast, 0)
	used, _, err = s.count(ctx, settleScript, &t, strconv.FormatInt(delta, 10), strconv.FormatInt(atLeast, 10), over, after)
	return used, err
}

// tell tells OnDegraded of an error that is not the caller's end.
func (s *Store) tell(ctx context.Context, err *error) {
	if *err != nil && s.OnDegraded != nil && ctx.Err() == nil {
		s.OnDegraded(*err)
	}
}

// count runs spend or settle.
func (s *Store) count(ctx context.Context, script *Script, t *quota.Tally, args ...string) (used int64, granted bool, err error) {
	if s.Client == nil {
		return 0, false, s.Check()
	}
	name := s.countKey(t)
	reply, err := s.eval(ctx, script, []string{name}, append([]string{s.time()}, args...))
	switch {
	case err != nil:
		return 0, false, err
	case len(reply) != 1:
		return 0, false, errAnswer
	case reply[0] == "j":
		return 0, false, &JunkError{Key: name}
	case reply[0] == "x":
		return 0, false, tooMany(t)
	}
	verdict, number, _ := strings.Cut(reply[0], ",")
	used, err = strconv.ParseInt(number, 10, 64)
	if err != nil || used < 0 || verdict != "1" && verdict != "0" {
		return 0, false, errAnswer
	}
	return used, verdict == "1", nil
}

func tooMany(t *quota.Tally) error {
	return fmt.Errorf("redisstore: quota %q: Redis counts exactly up to %d, and this would be more", t.Quota, int64(maxExact))
}

// countKey names the count of a quota, a key and the start of a period.
func (s *Store) countKey(t *quota.Tally) string {
	start := ""
	if !t.Start.IsZero() {
		start = strconv.FormatInt(t.Start.Unix(), 10)
		if nanos := t.Start.Nanosecond(); nanos > 0 {
			start += fmt.Sprintf(".%09d", nanos)
		}
	}
	return s.prefix() + ":q:" + keyPart(t.Quota) + ":" + keyPart(t.Key) + ":" + start
}

// lifeOf returns when the period of t ends, rounded up, and for how long the
// count stays afterwards; both in milliseconds, both empty if it never ends.
func lifeOf(t *quota.Tally) (over, after string, err error) {
	if t.End.IsZero() {
		return "", "", nil
	}
	end := t.End.Add(time.Millisecond - 1).UnixMilli()
	if end > maxEnd {
		return "", "", fmt.Errorf("redisstore: quota %q: the period ends at %v: at most the year 9999 is allowed", t.Quota, t.End)
	}
	stays := maxAfterlife
	if !t.Start.IsZero() {
		stays = min(max(t.End.Sub(t.Start), minAfterlife), maxAfterlife)
	}
	return strconv.FormatInt(end, 10), strconv.FormatInt(stays.Milliseconds(), 10), nil
}
