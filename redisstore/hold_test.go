package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/pacer"
)

// A hold reaches the others, empties the bucket but for one unit, ends up to a
// tenth later and gets no shorter.
func TestHold(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		for name, c := range map[string]struct {
			pace  pacer.Pace
			known bool
		}{
			"of a key that is known":     {perSecond(10, 5), true},
			"of a key that is not":       {perSecond(10, 5), false},
			"of a key that is even":      {pacer.Pace{Rate: pacer.Per(10, time.Second), Shape: pacer.LeakyBucket}, true},
			"of a key that will be even": {pacer.Pace{Rate: pacer.Per(10, time.Second), Shape: pacer.LeakyBucket}, false},
		} {
			t.Run(name, func(t *testing.T) {
				one, two := storeAt(t, addr), storeAt(t, addr)
				one.Prefix, two.Prefix = name, name
				now := clocked(one)
				two.now = one.now
				*now = 1_800_000_000_000_000
				var early pacer.Grant
				if c.known {
					reserve(t, two, c.pace, 1, 0)
					_, early = reserve(t, two, c.pace, 1, time.Second)
				}
				require.NoError(t, one.Hold(t.Context(), "k", 10*time.Second))
				require.NoError(t, one.Hold(t.Context(), "k", time.Second), "it gets no shorter")
				if c.known {
					require.NoError(t, early.Cancel(t.Context()), "and nothing comes back")
				}
				wait, _ := reserve(t, two, c.pace, 0, time.Minute)
				require.GreaterOrEqual(t, wait, 10*time.Second)
				wait, _ = reserve(t, two, c.pace, 1, time.Minute)
				require.GreaterOrEqual(t, wait, 10*time.Second)
				require.LessOrEqual(t, wait, 11*time.Second)
				next, _ := reserve(t, one, c.pace, 1, time.Minute)
				require.Equal(t, wait+100*ms, next)
				refused, _ := reserve(t, one, c.pace, 1, time.Second)
				require.Equal(t, -1-wait-200*ms, refused)

				// Who comes after it finds what was earned since.
				*now += next.Microseconds() + 100_000
				last, _ := reserve(t, two, c.pace, 1, 0)
				require.Zero(t, last)
				last, _ = reserve(t, two, c.pace, 1, time.Second)
				require.Equal(t, 100*ms, last)
			})
		}
	})
}

// Nor does another rate fill the bucket before a hold has ended.
func TestHoldThenAnotherRate(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		*now = 1_800_000_000_000_000
		reserve(t, s, perSecond(1, 50), 1, 0)
		require.NoError(t, s.Hold(t.Context(), "k", 10*time.Second))
		wait, _ := reserve(t, s, perSecond(1000, 50), 1, time.Minute)
		require.GreaterOrEqual(t, wait, 10*time.Second)
		next, _ := reserve(t, s, perSecond(1000, 50), 1, time.Minute)
		require.Equal(t, wait+ms, next)
	})
}

func TestHoldIsJittered(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		*now = 1_800_000_000_000_000
		var least, most time.Duration = 1 << 60, 0
		for i := range 40 {
			s.Prefix = string(rune('a' + i))
			require.NoError(t, s.Hold(t.Context(), "k", time.Hour))
			require.NoError(t, s.Hold(t.Context(), "k", -time.Hour))
			wait, _ := reserve(t, s, perSecond(10, 1), 1, 2*time.Hour)
			least, most = min(least, wait), max(most, wait)
		}
		assert.GreaterOrEqual(t, least, time.Hour)
		assert.LessOrEqual(t, most, time.Hour+30*time.Second)
		assert.Greater(t, most-least, 10*time.Second)
	})
}

// After a hold of which no pace was known the bucket is empty, whoever asks when.
func TestHoldOutlivesItself(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		require.NoError(t, s.Hold(t.Context(), "k", 20*ms))
		time.Sleep(30 * ms)
		p := perSecond(10, 50)
		wait, _ := reserve(t, s, p, 1, 0)
		require.Zero(t, wait)
		wait, _ = reserve(t, s, p, 5, time.Minute)
		require.Greater(t, wait, 300*ms)
	})
}
