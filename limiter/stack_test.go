package limiter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// must is for limits that cannot be wrong.
func must(l *Limit, err error) *Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// stackOf builds the limits that most tests of stacks use.
func stackOf() (user, tenant, global *Limit) {
	return must(TokenBucket("user", Per(1, time.Second), 5)),
		must(TokenBucket("tenant", Per(2, time.Second), 10)),
		must(FixedWindow("global", 12, time.Minute, ToFirst))
}

func TestStackNamesTheLimitThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user, tenant, global := stackOf()
		var m Memory
		take := func(cost int64) Decision {
			d, err := m.Take(t.Context(), user.Charge("u", cost), tenant.Charge("t", cost), global.Charge("", cost))
			require.NoError(t, err)
			return d
		}
		d := take(5)
		require.True(t, d.Allowed)
		require.Equal(t, user, d.By, "the tightest: 0 of 5")
		require.Equal(t, []int64{0, 5, 7}, remaining(d))

		d = take(3)
		require.False(t, d.Allowed)
		require.Equal(t, user, d.By)
		require.Equal(t, 3*time.Second, d.RetryAfter)
		require.Equal(t, []bool{false, true, true}, []bool{d.Each[0].Allowed, d.Each[1].Allowed, d.Each[2].Allowed})
		require.Equal(t, []int64{0, 5, 7}, remaining(d), "nothing was charged")
		require.Zero(t, d.Each[1].RetryAfter)

		time.Sleep(5 * time.Second)
		require.True(t, take(5).Allowed)
		time.Sleep(5 * time.Second)
		d = take(4)
		require.False(t, d.Allowed)
		require.Equal(t, global, d.By, "12 a minute, 10 are gone")
		require.Equal(t, 50*time.Second, d.RetryAfter)

		d = take(6)
		require.True(t, d.Never, "a bucket of 5 never holds 6")
		require.Equal(t, user, d.By, "never is longer than any wait")
	})
}

func remaining(d Decision) (r []int64) {
	for _, e := range d.Each {
		r = append(r, e.Remaining)
	}
	return r
}

func TestStackSumsTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user, tenant, _ := stackOf()
		var m Memory
		d, err := m.Take(t.Context(), user.Charge("u", 3), tenant.Charge("t", 1), user.Charge("u", 3))
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.True(t, d.Never, "3 and 3 are 6, and the bucket holds 5")
		require.Equal(t, d.Each[0], d.Each[2])

		d, err = m.Take(t.Context(), user.Charge("u", 2), tenant.Charge("t", 1), user.Charge("u", 3))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, []int64{0, 9, 0}, remaining(d))

		d, err = m.Take(t.Context(), user.Charge("v", 0), user.Charge("v", 0))
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, []int64{5, 5}, remaining(d), "to ask twice is to ask")

		d, err = m.Take(t.Context(), user.Charge("v", 1<<62), user.Charge("v", 1<<62), user.Charge("v", 1<<62))
		require.NoError(t, err)
		require.True(t, d.Never, "a sum past the integers is no small one")
		d, err = m.Take(t.Context(), user.Charge("v", 5))
		require.NoError(t, err)
		require.True(t, d.Allowed, "nor was anything charged")
	})
}

func TestStackOfEveryRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := []*Limit{
			must(FixedWindow("fixed", 3, time.Minute, ToClockPerKey)),
			must(SlidingLog("log", 3, time.Minute)),
			must(SlidingCounter("counter", 3, time.Minute)),
			must(SlidingBuckets("buckets", 3, time.Minute, 6)),
			must(TokenBucket("bucket", Per(1, time.Minute), 3)),
			must(LeakyMeter("meter", Per(1, time.Minute), 3)),
			must(LeakyQueue("queue", Per(1, time.Minute), 3)),
			must(Quota("day", 3, Day, nil)),
			must(SlidingLog("log 2", 3, time.Minute)),
			must(SlidingBuckets("buckets 2", 3, time.Minute, 6)),
		}
		for short, missing := range limits {
			var m Memory
			var charges []Charge
			for _, l := range limits {
				charges = append(charges, l.Charge("k", 1))
			}
			_, err := m.Take(t.Context(), missing.Charge("k", 1))
			require.NoError(t, err)
			for range 2 {
				d, err := m.Take(t.Context(), charges...)
				require.NoError(t, err)
				require.True(t, d.Allowed)
				require.Equal(t, d.Each[6].Delay, d.Delay, "it leaves when the queue lets it")
				require.GreaterOrEqual(t, d.Delay, time.Minute)
			}
			d, err := m.Take(t.Context(), charges...)
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.Equal(t, missing, d.By)
			for i, e := range d.Each {
				require.Equal(t, i != short, e.Allowed, limits[i].Name())
				want := int64(1)
				if i == short {
					want = 0
				}
				require.Equal(t, want, e.Remaining, limits[i].Name())
			}
			require.NoError(t, m.Refund(t.Context(), charges...))
			d, err = m.Take(t.Context(), charges...)
			require.NoError(t, err)
			require.True(t, d.Allowed, "after refund")
		}
	})
}

func TestStackOfNothing(t *testing.T) {
	var m Memory
	d, err := m.Take(context.Background())
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.Nil(t, d.By)
}
