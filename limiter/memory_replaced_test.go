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

// TestReplacingShares: limits that share what is in use, since they replace one
// another or the same, do not take it away from each other. A smaller one refuses
// until it is its turn, and changes nothing by that.
func TestReplacingShares(t *testing.T) {
	for _, build := range []func(string, int64) *Limit{
		func(name string, n int64) *Limit { return must(TokenBucket(name, Per(1, time.Minute), n)) },
		func(name string, n int64) *Limit { return must(LeakyMeter(name, Per(1, time.Minute), n)) },
		func(name string, n int64) *Limit { return must(LeakyQueue(name, Per(1, time.Minute), n)) },
		func(name string, n int64) *Limit { return must(FixedWindow(name, n, time.Hour, ToFirst)) },
		func(name string, n int64) *Limit { return must(FixedWindow(name, n, time.Hour, ToClockPerKey)) },
		func(name string, n int64) *Limit { return must(SlidingCounter(name, n, time.Hour)) },
		func(name string, n int64) *Limit { return must(Quota(name, n, Day, nil)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &Memory{}
			old := build("old", 50)
			pro, free := build("pro", 100).Replacing(old), build("free", 5).Replacing(old)
			other := must(FixedWindow("other", 1000, time.Hour, ToFirst))
			admitted := int64(0)
			for range 300 {
				if take(t, m, pro, "k", 1).Allowed {
					admitted++
				}
				d := take(t, m, free, "k", admitted%2)
				if admitted >= 5 {
					require.False(t, d.Allowed)
					require.Zero(t, d.Remaining)
				} else if d.Allowed {
					admitted += admitted % 2
				}
				d, err := m.Take(t.Context(), other.Charge("k", 1), free.Charge("k", 2))
				require.NoError(t, err)
				require.Equal(t, admitted <= 3, d.Allowed)
				if d.Allowed {
					admitted += 2
				}
			}
			require.EqualValues(t, 100, admitted, pro.Kind())
			require.NoError(t, m.Refund(t.Context(), free.Charge("k", 6)))
			require.EqualValues(t, 6, take(t, m, pro, "k", 0).Remaining, "of %s no more than that", pro.Kind())
			d := take(t, m, free, "k", 2)
			require.False(t, d.Allowed)
			time.Sleep(d.RetryAfter - 1)
			require.False(t, take(t, m, free, "k", 2).Allowed, pro.Kind())
			time.Sleep(time.Nanosecond)
			require.True(t, take(t, m, free, "k", 2).Allowed, "RetryAfter of %s is true", pro.Kind())
			m.consistent(t)
		})
	}
}

// TestReplacingAQueue: who waits has been told when to leave, so who comes after
// the capacity was lowered, be it with the rate, leaves after them.
func TestReplacingAQueue(t *testing.T) {
	for _, rate := range []Rate{Per(1, time.Second), Per(60, time.Minute), Per(9, 10*time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			var m Memory
			begin := time.Now()
			var leave []time.Duration
			old := must(LeakyQueue("q", Per(1, time.Second), 10))
			for range 10 {
				leave = append(leave, time.Since(begin)+take(t, &m, old, "k", 1).Delay)
			}
			l := must(LeakyQueue("q", rate, 3)).Replacing(old)
			for time.Since(begin) < 30*time.Second {
				d := take(t, &m, l, "k", 1)
				if d.Allowed {
					leave = append(leave, time.Since(begin)+d.Delay)
					continue
				}
				require.Positive(t, d.RetryAfter)
				time.Sleep(d.RetryAfter)
			}
			require.Greater(t, len(leave), 25)
			for i, at := range leave[1:] {
				require.GreaterOrEqual(t, at-leave[i], time.Second, "%v", leave)
			}
			m.consistent(t)
		})
	}
}
