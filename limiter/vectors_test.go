package limiter_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/vectors"
	"github.com/politehttp/polite/limiter"
)

// sleepUntil waits in a bubble, whose clock starts in 2000.
func sleepUntil(unix int64) { time.Sleep(time.Until(time.Unix(0, unix))) }

// Every case on one limit, through a Memory.
func TestLimiterVectors(t *testing.T) {
	for _, c := range vectors.Cases(t) {
		t.Run(c.Name+"/"+c.Algorithm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m limiter.Memory
				l := c.New(t, c.Name)
				for i, s := range c.Steps {
					sleepUntil(s.At)
					want := limiter.Decision{
						Allowed: s.Allowed, By: l, Quota: l.Quota(), Remaining: s.Remaining,
						ResetAfter: s.Reset, Delay: s.Delay, Never: s.Retry == nil,
					}
					got, err := m.Take(t.Context(), l.Charge("key", s.Cost))
					require.NoError(t, err)
					if s.Retry == nil {
						got.RetryAfter = 0 // meaningless
					} else {
						want.RetryAfter = *s.Retry
					}
					require.Equal(t, want, got, "step %d: %+v", i, s)
				}
			})
		})
	}
}

// Every case on several limits, through a Memory.
func TestStackVectors(t *testing.T) {
	for _, c := range vectors.Stacks(t) {
		t.Run(c.Name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { runStack(t, c) }) })
	}
}

func runStack(t *testing.T, c vectors.StackCase) {
	var m limiter.Memory
	var limits []*limiter.Limit
	index := map[*limiter.Limit]int{}
	for i, v := range c.Limits {
		limits = append(limits, v.New(t, v.Name))
		index[limits[i]] = i
	}
	for i, s := range c.Steps {
		sleepUntil(s.At)
		var charges []limiter.Charge
		for _, charge := range s.Charges {
			charges = append(charges, limits[charge.Limit].Charge(charge.Key, charge.Cost))
		}
		d, err := m.Take(t.Context(), charges...)
		require.NoError(t, err)
		say := fmt.Sprintf("step %d: %+v: %+v", i, s, d)
		require.Equal(t, s.Allowed, d.Allowed, say)
		require.Equal(t, s.Never, d.Never, say)
		require.NotNil(t, d.By, say)
		if !s.Allowed {
			require.Contains(t, s.By, index[d.By], say)
		}
		if s.Retry != nil && !s.Never {
			require.Equal(t, *s.Retry, d.RetryAfter, say)
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
			if s.Remaining != nil {
				require.Equal(t, s.Remaining[j], e.Remaining, "charge %d of %s", j, say)
				require.Equal(t, s.Reset[j], e.ResetAfter, "charge %d of %s", j, say)
			}
		}
		if s.Remaining != nil {
			require.Equal(t, s.Delay, d.Delay, say)
		}
	}
}

// A window that starts with the clock for each key at an instant of its own
// still admits its quota in each, and no two of these keys start at once.
func TestToClockPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m limiter.Memory
		l, err := limiter.FixedWindow("w", 3, time.Minute, limiter.ToClockPerKey)
		require.NoError(t, err)
		starts := map[time.Duration]string{}
		for _, key := range []string{"", "a", "b", "user-1", "user-2"} {
			d, err := m.Take(t.Context(), l.Charge(key, 3))
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Positive(t, d.ResetAfter)
			require.LessOrEqual(t, d.ResetAfter, time.Minute)
			starts[d.ResetAfter] = key
		}
		require.Len(t, starts, 5)
		require.Equal(t, "user-1", starts[time.Minute-47_622_785_477], "2000 began with a whole minute; see Shift's test")
		time.Sleep(time.Minute - 47_622_785_477 - 1)
		d, err := m.Take(t.Context(), l.Charge("user-1", 1))
		require.NoError(t, err)
		assert.False(t, d.Allowed)
		assert.Equal(t, time.Duration(1), d.RetryAfter)
		time.Sleep(time.Nanosecond)
		d, err = m.Take(t.Context(), l.Charge("user-1", 3))
		require.NoError(t, err)
		assert.True(t, d.Allowed)
		assert.Equal(t, time.Minute, d.ResetAfter)
	})
}
