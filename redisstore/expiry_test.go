package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// spare is how much longer than its state a key lives at most: a second, a slice
// of time of 2^22 microseconds, and what it takes to ask.
const spare = 5500 * time.Millisecond

// A key lives as long as its state, and not for ever; to ask makes none.
func TestExpiry(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	for name, l := range oneOfEach() {
		c := l.Charge("k", 0)
		d, err := s.Take(t.Context(), c)
		require.NoError(t, err)
		require.True(t, d.Allowed, name)
		require.Equal(t, 0, server.Keys(), "%s: asking has written", name)
		c.Cost = 3
		if d, err = s.Take(t.Context(), c); d.ResetAfter < 100*time.Millisecond {
			continue // at a boundary
		}
		require.NoError(t, err)
		require.Equal(t, int64(7), d.Remaining, name)
		left, err := strconv.Atoi(server.Do("PTTL", nameOf(t, s, c)))
		require.NoError(t, err)
		life := time.Duration(left) * time.Millisecond
		assert.Greater(t, life, d.ResetAfter, name)
		assert.Less(t, life, d.ResetAfter+spare, name)
		expires, err := strconv.ParseInt(server.Do("PEXPIRETIME", nameOf(t, s, c)), 10, 64)
		require.NoError(t, err)
		known := s.levelOf(t, &c)
		assert.GreaterOrEqual(t, expires*1000, known, "%s goes before its state does", name)
		require.NoError(t, s.Refund(t.Context(), l.Charge("k", 2)))
		require.Equal(t, 1, server.Keys(), name)
		require.NoError(t, s.Refund(t.Context(), l.Charge("k", 2)))
		require.Equal(t, 0, server.Keys(), "%s equals new, and is still there", name)
	}
}

// At each of many charges and refunds, by Redis's own clock, each key lives longer
// than its state, though most charges do not say how long; and not much longer.
func TestExpiryWithEachCharge(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	const quota, window = 1000, 300 * time.Millisecond
	limits := []*limiter.Limit{
		made(limiter.FixedWindow("first", quota, window, limiter.ToFirst)),
		made(limiter.FixedWindow("clock", quota, window, limiter.ToClock)),
		made(limiter.FixedWindow("per key", quota, window, limiter.ToClockPerKey)),
		made(limiter.SlidingLog("log", quota, window)),
		made(limiter.SlidingCounter("counter", quota, window)),
		made(limiter.SlidingBuckets("buckets", quota, window, 6)),
		made(limiter.TokenBucket("token", limiter.Per(quota, 10*time.Second), quota)),
		made(limiter.LeakyQueue("queue", limiter.Per(30, time.Millisecond/7), quota)),
		made(limiter.Quota("calendar", quota, limiter.Day, time.UTC)),
	}
	server.ResetCalls()
	charged := 0
	for step := range 150 {
		var charges []limiter.Charge
		for i, l := range limits {
			if step%10 == 9 && i == step%len(limits) { // new numbers
				l = made(limiter.FixedWindow(l.Name(), quota+int64(step), window, limiter.ToFirst))
			}
			charges = append(charges, l.Charge("k", 1))
		}
		d, err := s.Take(t.Context(), charges...)
		require.NoError(t, err)
		require.NoError(t, d.Degraded)
		require.True(t, d.Allowed)
		charged += len(charges)
		if step%7 == 6 {
			require.NoError(t, s.Refund(t.Context(), limits[step%len(limits)].Charge("k", 1)))
		}
		for i := range charges {
			if step%10 == 9 && i == step%len(limits) {
				continue // the next charge finds numbers that are older again
			}
			name := nameOf(t, s, charges[i])
			ends := s.levelOf(t, &charges[i])
			expires, err := strconv.ParseInt(server.Do("PEXPIRETIME", name), 10, 64)
			require.NoError(t, err)
			if expires == -2 && ends <= time.Now().UnixMicro() {
				continue // given back
			}
			require.Greater(t, expires*1000, ends, "%s goes before its state does", name)
			require.Less(t, expires*1000, ends+spare.Microseconds(), "%s stays", name)
		}
		time.Sleep(5 * time.Millisecond)
	}
	calls := server.Calls()
	require.Less(t, calls["set"], charged/2, "few charges had to say how long: %v", calls)
	require.Greater(t, calls["setrange"], charged/4, calls)
}

// A key that somebody made permanent expires again, once it is in use.
func TestExpiryComesBack(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		for name, l := range oneOfEach() {
			c := l.Charge("k", 1)
			left := func(command string) string {
				reply, err := s.Client.Eval(t.Context(), NewScript(`return redis.call(ARGV[1], KEYS[1])`), []string{nameOf(t, s, c)}, []string{command})
				require.NoError(t, err)
				return reply[0]
			}
			now := clocked(s)
			*now = 1_790_000_000_000_001
			for range 3 {
				*now++
				_, err := s.Take(t.Context(), c)
				require.NoError(t, err)
			}
			require.Equal(t, "1", left("PERSIST"))
			for charges := 0; left("PTTL") == "-1"; charges++ {
				require.Less(t, charges, 64, name)
				*now++
				d, err := s.Take(t.Context(), l.Charge("k", 1))
				require.NoError(t, err)
				if !d.Allowed {
					*now += d.RetryAfter.Microseconds() + 1
				}
			}
		}
	})
}

// levelOf returns when the state of a key equals new, in microseconds.
func (s *Store) levelOf(t *testing.T, c *limiter.Charge) int64 {
	st, err := s.stack([]limiter.Charge{{Limit: c.Limit, Key: c.Key}})
	require.NoError(t, err)
	a, err := s.send(t.Context(), takeScript, st)
	require.NoError(t, err)
	seat := &st.seats[0]
	if seat.rule.Long() {
		return a.levels[0].last + seat.rule.Window()
	}
	at := a.levels[0].state.A - seat.shift(c.Key)
	if seat.unit == time.Nanosecond {
		at /= 1000
	}
	return at
}
