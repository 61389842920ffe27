package limiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReplacing: what is in use under a limit stays in use under the one that
// replaces it, from any rule to any other.
func TestReplacing(t *testing.T) {
	build := func(quota int64) []*Limit {
		rate := Per(quota, time.Hour)
		return []*Limit{
			must(FixedWindow("fixed", quota, time.Hour, ToClock)),
			must(FixedWindow("first", quota, time.Hour, ToFirst)),
			must(FixedWindow("per key", quota, time.Hour, ToClockPerKey)),
			must(SlidingLog("log", quota, time.Hour)),
			must(SlidingCounter("counter", quota, time.Hour)),
			must(SlidingBuckets("buckets", quota, time.Hour, 6)),
			must(TokenBucket("bucket", rate, quota)),
			must(LeakyMeter("meter", rate, quota)),
			must(LeakyQueue("queue", rate, quota)),
			must(Quota("day", quota, Day, nil)),
		}
	}
	for i, from := range build(10) {
		for j := range build(20) {
			for _, quota := range []int64{20, 10, 3} {
				synctest.Test(t, func(t *testing.T) {
					var m Memory
					old := build(10)[i]
					require.True(t, take(t, &m, old, "k", 4).Allowed)
					to := build(quota)[j].Replacing(old)
					d := take(t, &m, to, "k", 0)
					require.Equal(t, max(quota-4, 0), d.Remaining, "from %s to %s of %d", from.Name(), to.Name(), quota)
					require.Equal(t, quota > 4, d.Allowed)
					require.Equal(t, d, take(t, &m, to, "k", 0), "brought along once")
					require.Equal(t, quota, take(t, &m, to, "other", 0).Remaining)
					if quota > 4 {
						require.True(t, take(t, &m, to, "k", quota-4).Allowed)
						require.False(t, take(t, &m, to, "k", 1).Allowed)
						require.NoError(t, m.Refund(t.Context(), to.Charge("k", 1)))
						require.EqualValues(t, 1, take(t, &m, to, "k", 0).Remaining)
					}
					require.Equal(t, 1, m.Stats().Keys, "one entry all along")
					take(t, &m, old, "at once", 2)
					d = take(t, &m, to, "at once", 1)
					require.Equal(t, max(quota-3, 0), d.Remaining)
					m.consistent(t)
				})
			}
		}
	}
}

// TestReplacingInAStack and when nothing is charged: nothing gets lost.
func TestReplacingInAStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Memory{MaxKeys: 2}
		old := must(TokenBucket("bucket", Per(1, time.Hour), 10))
		log := must(SlidingLog("log", 10, time.Hour))
		require.True(t, take(t, &m, old, "k", 4).Allowed)
		require.True(t, take(t, &m, log, "k", 4).Allowed)
		newer := must(SlidingLog("bucket", 10, time.Hour)).Replacing(must(FixedWindow("bucket", 9, time.Hour, ToFirst)).Replacing(old))
		newLog := must(TokenBucket("log", Per(1, time.Hour), 8)).Replacing(log)
		d, err := m.Take(t.Context(), newer.Charge("k", 7), newLog.Charge("k", 1))
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, []int64{6, 4}, remaining(d), "at the bound too")
		d, err = m.Take(t.Context(), newer.Charge("k", 6), newLog.Charge("k", 1))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, []int64{0, 3}, remaining(d))
		require.NoError(t, m.Refund(t.Context(), must(TokenBucket("log", Per(1, time.Hour), 9)).Replacing(newLog).Charge("k", 2)))
		m.consistent(t)
		require.Equal(t, 2, m.Stats().Keys)
	})
}

// TestReplacingForYears: 100 changes of the numbers between two uses are one,
// if only the quota changes.
func TestReplacingForYears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		l := must(FixedWindow("bucket", 10, 24*time.Hour, ToFirst))
		require.True(t, take(t, &m, l, "k", 4).Allowed)
		for i := range int64(100) {
			l = must(FixedWindow("bucket", 11+i, 24*time.Hour, ToFirst)).Replacing(l)
		}
		require.EqualValues(t, 110-4, take(t, &m, l, "k", 0).Remaining)
	})
}
