package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// nameOf is the name of the Redis key of a charge.
func nameOf(t testing.TB, s *Store, c limiter.Charge) string {
	t.Helper()
	st, err := s.stack([]limiter.Charge{c})
	require.NoError(t, err)
	return st.keys[0]
}

// made is the limit, or the end of the test.
func made(l *limiter.Limit, err error) *limiter.Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// oneOfEach has a limit of each rule: ten units in a minute, or in a day.
func oneOfEach() map[string]*limiter.Limit {
	const n = 10
	rate := limiter.Per(n, time.Minute)
	return map[string]*limiter.Limit{
		"first":    made(limiter.FixedWindow("first", n, time.Minute, limiter.ToFirst)),
		"clock":    made(limiter.FixedWindow("clock", n, time.Minute, limiter.ToClock)),
		"per key":  made(limiter.FixedWindow("per key", n, time.Minute, limiter.ToClockPerKey)),
		"log":      made(limiter.SlidingLog("log", n, time.Minute)),
		"counter":  made(limiter.SlidingCounter("counter", n, time.Minute)),
		"buckets":  made(limiter.SlidingBuckets("buckets", n, time.Minute, 6)),
		"token":    made(limiter.TokenBucket("token", rate, n)),
		"meter":    made(limiter.LeakyMeter("meter", rate, n)),
		"queue":    made(limiter.LeakyQueue("queue", rate, n)),
		"calendar": made(limiter.Quota("calendar", n, limiter.Day, time.UTC)),
	}
}

func TestCheck(t *testing.T) {
	var s Store
	_, err := s.Take(t.Context(), made(limiter.SlidingLog("l", 1, time.Second)).Charge("k", 1))
	assert.EqualError(t, err, "redisstore: Store.Client is nil: it is required, and Rueidis makes one")
	s.Client = failing{}
	assert.NoError(t, s.Check())
	s.Prefix = "a{b}"
	assert.ErrorContains(t, s.Check(), `Store.Prefix is "a{b}"`)
	s.Prefix, s.Processes = "", -1
	assert.ErrorContains(t, s.Check(), "Store.Processes is -1")
}

// failing is a Redis that is not there.
type failing struct{}

var errDown = errors.New("connection refused")

func (failing) Eval(context.Context, *Script, []string, []string) ([]string, error) {
	return nil, errDown
}

// What is not exact in 53 bits, or in microseconds, is refused and not rounded.
func TestInexact(t *testing.T) {
	s := &Store{Client: failing{}}
	for _, c := range []struct {
		limit *limiter.Limit
		says  string
	}{
		{made(limiter.FixedWindow("x", math.MaxInt64/4, time.Second, limiter.ToClock)), `redisstore: limit "x": quota 2305843009213693951 is not exact in Redis: it may be 4503599627370496 at most`},
		{made(limiter.FixedWindow("x", 1, 1500, limiter.ToClock)), "window of 1.5µs"},
		{made(limiter.SlidingLog("x", 1001, time.Second)), "it may be 1000 at most"},
		{made(limiter.SlidingBuckets("x", 1, 2*time.Second, 2000)), "2000 cells: in Redis there may be 1000 at most"},
		{made(limiter.SlidingBuckets("x", 1, time.Millisecond, 16)), "16 cells do not divide the window of 1ms into whole microseconds"},
		{made(limiter.TokenBucket("x", limiter.Per(7_000_000_000, 13), 1e15)), "1000000000000000 units at 7000000000 per 13ns are not exact in Redis: there may be 691784558056999 at most"},
		{made(limiter.TokenBucket("x", limiter.Per(1<<60, 1), 1)), "a rate of 1152921504606846976 per 1ns is not exact in Redis"},
		{made(limiter.LeakyMeter("x", limiter.Per(1, 24*365*time.Hour), 100)), "take"},
	} {
		_, err := s.Take(t.Context(), c.limit.Charge("k", 1))
		assert.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, s.Refund(t.Context(), c.limit.Charge("k", 1)), c.says)
	}
	// These are exact, though a unit is earned in a fraction of a microsecond.
	for _, l := range []*limiter.Limit{
		made(limiter.TokenBucket("x", limiter.Per(3, 1500), 10)),
		made(limiter.TokenBucket("x", limiter.Per(2_000_000, time.Second), 16_000_000)),
		made(limiter.SlidingCounter("x", math.MaxUint32, 30*24*time.Hour)),
	} {
		_, err := planOf(l)
		assert.NoError(t, err)
	}
}

func TestNonsense(t *testing.T) {
	s := &Store{Client: failing{}}
	l := oneOfEach()["log"]
	_, err := s.Take(t.Context(), l.Charge("k", 1), limiter.Charge{Key: "k"})
	assert.EqualError(t, err, "redisstore: Charge 2 of 2 has no Limit")
	_, err = s.Take(t.Context(), limiter.Charge{Limit: new(limiter.Limit)})
	assert.EqualError(t, err, "redisstore: Charge 1 of 1 has a Limit that no constructor made")
	_, err = s.Take(t.Context(), l.Charge("k", -1))
	assert.ErrorContains(t, err, "has Cost -1")
	_, err = s.Take(t.Context(), l.Charge("k", 1), made(limiter.SlidingLog("log", 11, time.Minute)).Charge("k", 1))
	assert.ErrorContains(t, err, `two limits named "log"`)
	d, err := s.Take(t.Context())
	assert.NoError(t, err)
	assert.Equal(t, limiter.Decision{Allowed: true}, d)
	assert.NoError(t, s.Refund(t.Context()))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Take(over, l.Charge("k", 1))
	assert.ErrorIs(t, err, context.Canceled)
}

// One decision is one EVALSHA, whatever the number of charges.
func TestRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	var all []limiter.Charge
	for name, l := range oneOfEach() {
		all = append(all, l.Charge(name, 1))
	}
	for _, n := range []int{1, 3, len(all)} {
		_, err := s.Take(t.Context(), all[:n]...) // EVAL for the first
		require.NoError(t, err)
		server.ResetCalls()
		d, err := s.Take(t.Context(), all[:n]...)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.NoError(t, d.Degraded)
		calls := server.Calls()
		assert.Equal(t, 1, calls["evalsha"], calls)
		assert.Equal(t, 0, calls["eval"], calls)
		require.NoError(t, s.Refund(t.Context(), all[:n]...))
	}
}

var (
	nan  = double(math.NaN())
	inf  = double(math.Inf(1))
	frac = double(0.5)
)

func double(f float64) string {
	return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
}

// A value that none of ours wrote is left alone, and is the matter of its key
// alone: the policy answers, and the circuit stays closed.
func TestJunk(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		put := func(key, value string) {
			_, err := s.Client.Eval(t.Context(), NewScript(`redis.call('DEL', KEYS[1]) if ARGV[1] == 'list' then redis.call('RPUSH', KEYS[1], 'x') else redis.call('SET', KEYS[1], ARGV[1]) end return 1`), []string{key}, []string{value})
			require.NoError(t, err)
		}
		get := func(key string) string {
			reply, err := s.Client.Eval(t.Context(), NewScript(`local v = redis.pcall('GET', KEYS[1]) return type(v) == 'table' and 'list' or v`), []string{key}, nil)
			require.NoError(t, err)
			return reply[0]
		}
		other := oneOfEach()["token"].Charge("other", 1)
		for name, l := range oneOfEach() {
			l.OnFailure = limiter.Closed
			c := l.Charge("k", 1)
			key := nameOf(t, s, c)
			p, err := planOf(l)
			require.NoError(t, err)
			spec := p.specFor("k")
			values := []string{
				"list", "", "hello", "0", "42", "1", "1b", "1b5,0,7;1796057961231399,1", spec[:20],
				pack("1b", 1, 2, 3), pack("1b", 0, 0, 0, 1, 1), pack("1b", 1, 0, 9, 1, 1), pack("1b", 5, 1, 7, 1, 5), pack("1b", 5, 1, 7, -1, 1),
				pack("1z", 1, 2, 3, 4, 5), pack("1c", 5, 0, 1, 1, 2), pack("1f", 5, 0, 1, 1, 2, 3), pack("1f", maxExact+2, 0, 1, 1, 2),
				pack("2b", 1, 6000000, 10, 1796057961231399, 0), "3" + pack(spec[1:], 1796057961231399, 0), strings.Repeat("1", 10_000),
				spec, spec + "x", pack(spec, 1), pack(spec, 1) + "x", pack(spec, 1, 2, 3, 4), pack(spec, maxExact+2, 1), pack(spec, maxExact+2, 1, 1),
				pack(spec, -1, 5), pack(spec, 5, -1), pack(spec, -1, 5, 5), pack(spec, 5, -1, 5), pack(spec, 5, 5, -1),
				spec + nan + nan, spec + nan + nan + nan, spec + inf + inf, spec + inf + inf + inf, spec + frac + frac, spec + frac + frac + frac,
				pack(spec, 5, 5, 5) + "junk", pack("1l", 60000000, 0, 10) + "x", pack("1l", 60000000, 0, 10, 5, 5, 5) + "junk",
				pack("1l", 60000000, 0, 10, 9000000000000000, 1, 1) + nan + frac, pack("1s", 60000000, 0, 10, 5, 1, 2, 9, 1),
			}
			if soon := time.Now().Add(time.Second).UnixMicro(); strings.Contains("cls", spec[1:2]) {
				values = append(values, pack(spec, soon, 5)) // as long as a window's
			}
			if p.leaks > 0 {
				values = append(values, pack(spec, 1796057961231399, p.leaks))
			}
			for _, junk := range values {
				put(key, junk)
				d, err := s.Take(t.Context(), c)
				require.NoError(t, err)
				var why *JunkError
				require.ErrorAs(t, d.Degraded, &why, "%s: %q: %+v", name, junk, d)
				require.Equal(t, key, why.Key)
				require.False(t, d.Allowed)
				require.Equal(t, time.Second, d.RetryAfter)
				require.ErrorAs(t, s.Refund(t.Context(), c), &why, "%s: %q", name, junk)
				require.Equal(t, junk, get(key), name)
				d, err = s.Take(t.Context(), other, c)
				require.NoError(t, err)
				require.ErrorAs(t, d.Degraded, &why)
			}
		}
		d, err := s.Take(t.Context(), other)
		require.NoError(t, err)
		require.NoError(t, d.Degraded)
		require.Equal(t, int64(9), d.Remaining, "what stood beside junk was not charged")
	})
}

// FuzzJunk: whatever stands under a key, Redis and this side get along.
func FuzzJunk(f *testing.F) {
	s := storeAt(f, redistest.Start(f).Addr)
	limits := oneOfEach()
	for name, l := range limits {
		p, err := planOf(l)
		require.NoError(f, err)
		f.Add(name, pack(p.specFor("k"), 1796057961231399, 5))
		f.Add(name, pack(p.specFor("k"), 1796057961231399, 5, 5))
		f.Add(name, pack(p.specFor("k"), 8796057961231399, 5, 5, 8796057961231399, 5))
		f.Add(name, pack(p.specFor("k"), 8796057961231399, 5, 10, 8796057961231399, 5))
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		l := limits[name]
		if l == nil {
			t.Skip()
		}
		c := l.Charge("k", 1)
		_, err := s.Client.Eval(t.Context(), NewScript(`redis.call('SET', KEYS[1], ARGV[1]) return 1`), []string{nameOf(t, s, c)}, []string{value})
		require.NoError(t, err)
		d, err := s.Take(t.Context(), c)
		require.NoError(t, err)
		var why *JunkError
		if d.Degraded != nil {
			require.ErrorAs(t, d.Degraded, &why)
		}
		if err := s.Refund(t.Context(), c); err != nil {
			require.ErrorAs(t, err, &why)
		}
	})
}

// Limits whose numbers change keep what is in use, mailgun/gubernator#40.
func TestChangedNumbers(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		for name := range oneOfEach() {
			left := func(quota, cost int64) int64 {
				l := oneOfEach()[name]
				switch {
				case l.Rate().Count > 0:
					l = made(limiter.TokenBucket(l.Name(), limiter.Per(quota, time.Hour), quota))
				case l.Kind() == "sliding_log":
					l = made(limiter.SlidingLog(l.Name(), quota, time.Hour))
				case l.Kind() == "calendar":
					l = made(limiter.Quota(l.Name(), quota, limiter.Month, time.UTC))
				default:
					l = made(limiter.FixedWindow(l.Name(), quota, time.Hour, limiter.ToFirst))
				}
				d, err := s.Take(t.Context(), l.Charge("k", cost))
				require.NoError(t, err)
				require.NoError(t, d.Degraded)
				return d.Remaining
			}
			require.EqualValues(t, 6, left(10, 4), name)
			require.EqualValues(t, 16, left(20, 0), name)
			require.EqualValues(t, 15, left(20, 1), name)
			require.EqualValues(t, 0, left(3, 0), name)
		}
	})
}

// After a failover to a clock that is behind, nobody waits longer than for one
// full refill, whether what refuses is the first that they ask or not.
func TestSlowerClock(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		for name, l := range oneOfEach() {
			full := 2 * time.Minute // of a sliding counter
			if name == "calendar" {
				full = 24 * time.Hour
			}
			*now = 1_790_000_000_000_000
			d, err := s.Take(t.Context(), l.Charge("k", 10))
			require.NoError(t, err)
			require.True(t, d.Allowed)
			*now -= int64(72 * time.Hour / time.Microsecond)
			d, err = s.Take(t.Context(), l.Charge("k", 10))
			require.NoError(t, err)
			require.False(t, d.Allowed, "%s: a step back has created units", name)
			require.LessOrEqual(t, d.RetryAfter, full, name)
			*now += d.RetryAfter.Microseconds() - 1
			d, err = s.Take(t.Context(), l.Charge("k", 10))
			require.NoError(t, err)
			require.False(t, d.Allowed, name)
			require.Equal(t, time.Microsecond, d.RetryAfter, name)
			*now++
			d, err = s.Take(t.Context(), l.Charge("k", 10))
			require.NoError(t, err)
			require.True(t, d.Allowed, name)
		}
	})
}

// The clock of this process does not matter: calendars ask Redis twice if theirs
// shows another day, and know better the next time.
func TestCalendarElsewhere(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	s.skew.Store(int64(20 * 24 * time.Hour))
	l := made(limiter.Quota("q", 10, limiter.Day, time.UTC))
	for i := range 3 {
		server.ResetCalls()
		d, err := s.Take(t.Context(), l.Charge("k", 1))
		require.NoError(t, err)
		require.NoError(t, d.Degraded)
		require.EqualValues(t, 9-i, d.Remaining)
		calls := server.Calls()
		assert.Equal(t, []int{2, 1, 1}[i], calls["evalsha"]+calls["eval"]-[]int{1, 0, 0}[i], fmt.Sprint(calls))
	}
}

func TestKeys(t *testing.T) {
	s := &Store{Client: failing{}}
	seen := map[string]string{}
	for _, name := range []string{"a", "a:b", "a%3Ab", "{a}", "#"} {
		for _, key := range []string{"", "a", "b", "a:b", "b:a", "{b}", "%7Bb%7D", "#", strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 4096), "\x00\xff"} {
			c := made(limiter.SlidingLog(name, 1, time.Second)).Charge(key, 1)
			redisKey := nameOf(t, s, c)
			assert.Empty(t, seen[redisKey], "%q %q", name, key)
			seen[redisKey] = name + " " + key
			assert.Less(t, len(redisKey), 450)
			assert.Equal(t, 0, strings.Count(redisKey, "{"+key+"}"))
		}
	}
}
