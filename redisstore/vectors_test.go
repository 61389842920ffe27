package redisstore

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/vectors"
	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// redises runs a test through a real Redis, and through miniredis, which prints
// numbers in another way. With the race detector, which has nothing to find in
// scripts and takes most of its time for miniredis's, the real one will do.
func redises(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("redis", func(t *testing.T) { test(t, redistest.Start(t).Addr) })
	if _, err := exec.LookPath("redis-server"); err == nil && raced && !long {
		return
	}
	t.Run("miniredis", func(t *testing.T) { test(t, redistest.Mini(t).Addr()) })
}

// storeAt returns a Store with a patient timeout.
func storeAt(t testing.TB, addr string) *Store {
	t.Helper()
	client, err := Rueidis(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, ConnWriteTimeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { closeClient(t, client) })
	return &Store{Client: client, Timeout: 10 * time.Second, NearKeys: -1}
}

// up is a duration rounded up to what Redis can tell.
func up(d time.Duration) time.Duration { return (d + 999) / 1000 * 1000 }

// clocked makes Redis take the time from the test.
func clocked(s *Store) (now *int64) {
	now = new(int64)
	s.now = func() int64 { return *now }
	return now
}

// Every case on one limit. A time between two microseconds is taken as the
// earlier: a few cases ask at a boundary and a nanosecond before it.
func TestLimiterVectors(t *testing.T) {
	cases := vectors.Cases(t)
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		for n, c := range cases {
			if !sampled(n) {
				continue
			}
			l := c.New(t, fmt.Sprint("case ", n))
			for i, step := range c.Steps {
				*now = step.At / 1000
				want := limiter.Decision{
					Allowed: step.Allowed, By: l, Quota: l.Quota(), Remaining: step.Remaining,
					ResetAfter: up(step.Reset), Delay: up(step.Delay), Never: step.Retry == nil,
				}
				got, err := s.Take(t.Context(), l.Charge("key", step.Cost))
				require.NoError(t, err)
				if step.Retry == nil {
					got.RetryAfter = 0 // meaningless
				} else {
					want.RetryAfter = up(*step.Retry)
				}
				require.Equal(t, want, got, "%s/%s step %d: %+v", c.Name, c.Algorithm, i, step)
			}
		}
	})
}

// afterDeparture is a time of one case: the first nanosecond after a unit has
// left, which Redis takes for the next microsecond.
const afterDeparture = 1_790_000_000_142_857_143

// Every case on several limits.
func TestStackVectors(t *testing.T) {
	cases := vectors.Stacks(t)
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		for n, c := range cases {
			if sampled(n) {
				runStack(t, s, c)
			}
		}
	})
}

// sampled says whether a case is to run: with the race detector, which has
// nothing to find in scripts, every fourth does.
func sampled(n int) bool { return !raced || long || n%4 == 0 }

func runStack(t *testing.T, s *Store, c vectors.StackCase) {
	now := clocked(s)
	var limits []*limiter.Limit
	index := map[*limiter.Limit]int{}
	for i, v := range c.Limits {
		limits = append(limits, v.New(t, fmt.Sprint(c.Name, " ", i)))
		index[limits[i]] = i
	}
	for i, step := range c.Steps {
		*now = step.At / 1000
		late := 0.0
		if step.At == afterDeparture {
			*now++
			late = float64(time.Microsecond)
		}
		var charges []limiter.Charge
		for _, charge := range step.Charges {
			charges = append(charges, limits[charge.Limit].Charge(charge.Key, charge.Cost))
		}
		d, err := s.Take(t.Context(), charges...)
		require.NoError(t, err)
		say := fmt.Sprintf("%s step %d: %+v: %+v", c.Name, i, step, d)
		require.Equal(t, step.Allowed, d.Allowed, say)
		require.Equal(t, step.Never, d.Never, say)
		require.NotNil(t, d.By, say)
		if !step.Allowed {
			require.Contains(t, step.By, index[d.By], say)
		}
		if step.Retry != nil && !step.Never {
			require.InDelta(t, up(*step.Retry), d.RetryAfter, late, say)
		}
		if len(charges) == 1 {
			require.Nil(t, d.Each, say)
			continue
		}
		require.Len(t, d.Each, len(charges), say)
		for j, e := range d.Each {
			require.Equal(t, charges[j].Limit, e.By, say)
			require.Equal(t, charges[j].Limit.Quota(), e.Quota, say)
			require.Nil(t, e.Each, say)
			if step.Remaining != nil {
				require.Equal(t, step.Remaining[j], e.Remaining, "charge %d of %s", j, say)
				require.InDelta(t, up(step.Reset[j]), e.ResetAfter, late, "charge %d of %s", j, say)
			}
		}
		if step.Remaining != nil {
			require.InDelta(t, up(step.Delay), d.Delay, late, say)
		}
	}
}
