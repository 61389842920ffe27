package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/pacer"
)

// sized are limits of one name and of every rule with a quota of n.
func sized(t testing.TB, n int64) map[string]*limiter.Limit {
	t.Helper()
	return map[string]*limiter.Limit{
		"bucket":   made(limiter.TokenBucket("l", limiter.Per(n, time.Hour), n)),
		"slow":     made(limiter.TokenBucket("l", limiter.Per(1, time.Minute), n)),
		"queue":    made(limiter.LeakyQueue("l", limiter.Per(1, time.Second), n)),
		"first":    made(limiter.FixedWindow("l", n, time.Hour, limiter.ToFirst)),
		"clock":    made(limiter.FixedWindow("l", n, time.Hour, limiter.ToClock)),
		"counter":  made(limiter.SlidingCounter("l", n, time.Hour)),
		"log":      made(limiter.SlidingLog("l", n, time.Hour)),
		"buckets":  made(limiter.SlidingBuckets("l", n, time.Hour, 6)),
		"calendar": made(limiter.Quota("l", n, limiter.Day, time.UTC)),
	}
}

// While processes with two sizes of a limit run beside each other, as in a rolling
// deploy, all of them together admit what the larger one allows: to ask by the
// smaller forgets nothing that is in use.
func TestTwoQuotasAtOnce(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		for smaller, small := range sized(t, 10) {
			for larger, large := range sized(t, 100) {
				*now = 1_790_000_000_000_000
				s.Prefix = smaller + "-" + larger
				admitted := int64(0)
				charge := func(l *limiter.Limit, cost int64) bool {
					d, err := s.Take(t.Context(), l.Charge("k", cost))
					require.NoError(t, err)
					require.NoError(t, d.Degraded)
					if d.Allowed {
						admitted += cost
					}
					return d.Allowed
				}
				take := func(l *limiter.Limit) bool { return charge(l, 1) }
				for range 3 {
					for range 4 {
						charge(large, 33)
					}
					take(large)
					take(small)
					charge(small, 10)
				}
				require.EqualValues(t, 100, admitted, "%s beside %s", smaller, larger)

				// What one gives back is one unit for all.
				require.NoError(t, s.Refund(t.Context(), small.Charge("k", 1)))
				require.False(t, take(small), "%s beside %s", smaller, larger)
				require.True(t, take(large), "%s beside %s", smaller, larger)
				require.False(t, take(large), "%s beside %s", smaller, larger)
			}
		}
	})
}

// By rates: over hours two bursts of a bucket admit what the larger one does.
func TestTwoBurstsForHours(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		*now = 1_790_000_000_000_000
		small := made(limiter.TokenBucket("l", limiter.Per(1, time.Second), 1))
		large := made(limiter.TokenBucket("l", limiter.Per(1, time.Second), 20))
		admitted := 0
		for range 100 {
			for _, l := range []*limiter.Limit{small, large} {
				for range 21 {
					d, err := s.Take(t.Context(), l.Charge("k", 1))
					require.NoError(t, err)
					if d.Allowed {
						admitted++
					}
				}
			}
			*now += 1_000_000
		}
		assert.LessOrEqual(t, admitted, 120)
		assert.GreaterOrEqual(t, admitted, 100)
	})
}

// When a quota shrinks, whoever waits for as long as it was told to is admitted; and
// if the clock steps back meanwhile, after a full refill by the numbers of before.
func TestSmallerQuota(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		take := func(l *limiter.Limit, cost int64) limiter.Decision {
			d, err := s.Take(t.Context(), l.Charge("k", cost))
			require.NoError(t, err)
			require.NoError(t, d.Degraded)
			return d
		}
		for smaller, small := range sized(t, 10) {
			for larger, large := range sized(t, 100) {
				*now = 1_790_000_000_000_000
				s.Prefix = "shrinks " + smaller + "-" + larger
				require.True(t, take(large, 100).Allowed)
				d := take(small, 1)
				require.False(t, d.Allowed)
				require.Zero(t, d.Remaining)
				if small.Rate().Count > 0 { // a window is told its own length at most
					*now += d.RetryAfter.Microseconds()
					require.True(t, take(small, 1).Allowed, "%s after %s, in %v", smaller, larger, d.RetryAfter)
				}

				*now = 1_790_000_000_000_000
				s.Prefix = "steps " + smaller + "-" + larger
				require.True(t, take(large, 100).Allowed)
				if strings.Contains(smaller+larger, "calendar") {
					continue // a day is a day
				}
				*now -= int64(72 * time.Hour / time.Microsecond)
				refused := time.Duration(0)
				for d = take(small, 1); !d.Allowed; d = take(small, 1) {
					refused += d.RetryAfter
					*now += d.RetryAfter.Microseconds()
					require.LessOrEqual(t, refused, 5*time.Hour, "%s after %s", smaller, larger)
				}
			}
		}
	})
}

// A value that is longer than any of ours is junk like others, and is not read: it
// would keep Redis busy, and the circuit of all keys open.
func TestHugeJunk(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		for name, l := range sized(t, 10) {
			s.Prefix = "huge " + name
			c := l.Charge("k", 1)
			fill := NewScript(`redis.call('SETRANGE', KEYS[1], 30000, 'x') return redis.call('STRLEN', KEYS[1])`)
			_, err := s.Client.Eval(t.Context(), fill, []string{nameOf(t, s, c)}, nil)
			require.NoError(t, err)
			d, err := s.Take(t.Context(), c)
			require.NoError(t, err)
			require.ErrorAs(t, d.Degraded, new(*JunkError), name)
			require.ErrorAs(t, s.Refund(t.Context(), c), new(*JunkError), name)
		}
	})
}

// Two paces of one key, as in a rolling deploy, grant together what the larger of
// them does: Burst + Rate × T in any interval T.
func TestTwoPacesAtOnce(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		even := func(n int64) pacer.Pace {
			return pacer.Pace{Rate: pacer.Per(n, time.Second), Shape: pacer.LeakyBucket}
		}
		for i, paces := range [][]pacer.Pace{
			{perSecond(10, 10), perSecond(10, 100)},
			{perSecond(1, 1), perSecond(1, 20)},
			{even(10), perSecond(10, 100)},
			{perSecond(10, 1), perSecond(10, 50), perSecond(10, 10), even(10)},
			{perSecond(5, 10), perSecond(10, 100)},
		} {
			for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
				*now = 1_790_000_000_000_000
				key := fmt.Sprint("two ", i, wait)
				var burst, rate int64
				var granted []int64
				for _, p := range paces {
					burst, rate = max(burst, p.Burst), max(rate, p.Rate.Count)
				}
				for round := range 40 {
					for {
						g, err := s.Reserve(t.Context(), key, paces[round%len(paces)], 1, wait)
						if err != nil {
							require.ErrorAs(t, err, new(*pacer.WaitError))
							break
						}
						granted = append(granted, *now+g.Wait.Microseconds())
					}
					*now += 1_000_000
				}
				slices.Sort(granted)
				over := int64(0) // Burst + Rate × T
				for from := range granted {
					for to := from; to < len(granted); to++ {
						over = max(over, int64(to-from+1)-burst-(rate*(granted[to]-granted[from])+999_999)/1_000_000)
					}
				}
				require.Zero(t, over, "%v", paces)
				require.Greater(t, len(granted), 39, "%v", paces)
			}
		}
	})
}
