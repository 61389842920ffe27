package limiter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Raced is for the tests outside the package.
const Raced = raced

// take is a Take of one charge that must not fail.
func take(t *testing.T, m *Memory, l *Limit, key string, cost int64) Decision {
	t.Helper()
	d, err := m.Take(t.Context(), l.Charge(key, cost))
	require.NoError(t, err)
	require.Nil(t, d.Each)
	require.Equal(t, l, d.By)
	return d
}

func TestMemoryDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory
		l := must(TokenBucket("bucket", Per(1, time.Second), 3))
		require.Equal(t, Decision{Allowed: true, By: l, Quota: 3, Remaining: 3}, take(t, &m, l, "k", 0), "to ask charges nothing")
		require.Zero(t, m.Stats().Keys, "nor is anything kept")
		require.Equal(t, Decision{Allowed: true, By: l, Quota: 3, Remaining: 1, ResetAfter: 2 * time.Second}, take(t, &m, l, "k", 2))
		require.Equal(t, Decision{By: l, Quota: 3, Remaining: 1, ResetAfter: 2 * time.Second, RetryAfter: time.Second}, take(t, &m, l, "k", 2))
		require.True(t, take(t, &m, l, "k", 0).Allowed)
		require.True(t, take(t, &m, l, "k", 1).Allowed)
		require.False(t, take(t, &m, l, "k", 0).Allowed)
		require.True(t, take(t, &m, l, "other", 3).Allowed)
		require.Equal(t, 2, m.Stats().Keys)

		d := take(t, &m, l, "k", 4)
		require.True(t, d.Never)
		require.False(t, d.Allowed)
		require.EqualValues(t, math.MaxInt64, d.RetryAfter, "whoever waits for it does not spin")
		require.True(t, take(t, &m, l, "new", 4).Never)
		require.Equal(t, 2, m.Stats().Keys)
	})
}

func TestMemoryRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, l := range []*Limit{
			must(TokenBucket("bucket", Per(1, time.Second), 3)),
			must(SlidingLog("log", 3, time.Second)),
			must(FixedWindow("window", 3, time.Second, ToClockPerKey)),
		} {
			var m Memory
			take(t, &m, l, "k", 3)
			require.NoError(t, m.Refund(t.Context(), l.Charge("k", 1), l.Charge("unknown", 1)))
			require.EqualValues(t, 1, take(t, &m, l, "k", 0).Remaining)
			require.NoError(t, m.Refund(t.Context(), l.Charge("k", math.MaxInt64), l.Charge("k", math.MaxInt64)))
			require.EqualValues(t, 3, take(t, &m, l, "k", 0).Remaining, "never more than was in use")
			require.True(t, take(t, &m, l, "k", 3).Allowed)
			require.False(t, take(t, &m, l, "k", 1).Allowed)
		}
	})
}

func TestMemoryErrors(t *testing.T) {
	var m Memory
	l := must(TokenBucket("bucket", Per(1, time.Second), 3))
	for _, c := range []struct {
		charges []Charge
		err     string
	}{
		{[]Charge{{}}, "limiter: Charge 1 of 1 has no Limit"},
		{[]Charge{l.Charge("k", 1), {Key: "k"}}, "limiter: Charge 2 of 2 has no Limit"},
		{[]Charge{l.Charge("k", 1), {Limit: &Limit{}}}, "limiter: Charge 2 of 2 has a Limit that no constructor made"},
		{[]Charge{l.Charge("secret", -1)}, `limiter: Charge 1 of 1, to limit "bucket", has Cost -1: it may be 0 or more; Refund gives back`},
		{[]Charge{l.Charge("k", 1), l.Charge("k", -1)}, `limiter: Charge 2 of 2, to limit "bucket", has Cost -1: it may be 0 or more; Refund gives back`},
	} {
		d, err := m.Take(t.Context(), c.charges...)
		require.EqualError(t, err, c.err)
		require.Equal(t, Decision{}, d)
		d, err = m.TakeInto(t.Context(), make([]Decision, 0, 4), c.charges...)
		require.EqualError(t, err, c.err)
		require.Equal(t, Decision{}, d)
		require.EqualError(t, m.Refund(t.Context(), c.charges...), c.err)
	}
	require.EqualValues(t, 3, take(t, &m, l, "k", 0).Remaining, "nothing was charged")
}

// TestMemoryChargesWhoHasLeft: to send requests and to hang up at once is no way
// around a limit (it is how HTTP/2's rapid reset, CVE-2023-44487, goes).
func TestMemoryChargesWhoHasLeft(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var m Memory
	l := must(TokenBucket("bucket", Per(1, time.Hour), 5))
	admitted := 0
	for range 10 {
		d, err := m.Take(ended, l.Charge("k", 1))
		require.NoError(t, err)
		if d.Allowed {
			admitted++
		}
	}
	require.Equal(t, 5, admitted)
	require.NoError(t, m.Refund(ended, l.Charge("k", 2)))
	require.EqualValues(t, 2, take(t, &m, l, "k", 0).Remaining)
}

func TestMemoryAllocatesNothing(t *testing.T) {
	var m Memory
	ctx := t.Context()
	var limits []*Limit
	var charges []Charge
	for i := range 12 {
		l := must(TokenBucket("bucket", Per(1, time.Second), 1<<30))
		limits = append(limits, l)
		charges = append(charges, l.Charge(fmt.Sprint("key", i), 1))
	}
	each := make([]Decision, len(charges))
	_, err := m.Take(ctx, charges...)
	require.NoError(t, err)
	zero := func(name string, f func()) {
		t.Helper()
		require.Zero(t, testing.AllocsPerRun(1000, f), name)
	}
	zero("Take", func() { _, _ = m.Take(ctx, limits[0].Charge("key0", 1)) })
	zero("Take, refused", func() { _, _ = m.Take(ctx, limits[0].Charge("key0", 1<<41)) })
	zero("Take, unknown", func() { _, _ = m.Take(ctx, limits[0].Charge("key1", 0)) })
	zero("TakeInto of one", func() { _, _ = m.TakeInto(ctx, nil, limits[0].Charge("key0", 1)) })
	zero("TakeInto", func() {
		_, _ = m.TakeInto(ctx, each, limits[0].Charge("key0", 1), limits[1].Charge("key1", 1), limits[2].Charge("key2", 1))
	})
	zero("Refund", func() { _ = m.Refund(ctx, limits[0].Charge("key0", 1)) })
	if !raced {
		zero("TakeInto of twelve", func() { _, _ = m.TakeInto(ctx, each, charges...) })
	}
}

// TestMemoryIsExact: 64 goroutines share a key, and exactly the quota passes.
func TestMemoryIsExact(t *testing.T) {
	for _, l := range everyRule(1000) {
		var m Memory
		var passed atomic.Int64
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				for range 50 {
					cost := rng.Int64N(3) // 64 · 50 · 1 on average, three times the quota
					if d, err := m.Take(context.Background(), l.Charge("k", cost)); err == nil && d.Allowed {
						passed.Add(cost)
					}
				}
			})
		}
		wg.Wait()
		left := take(t, &m, l, "k", 0).Remaining
		require.EqualValues(t, 1000, passed.Load()+left, l.Name())
		require.LessOrEqual(t, left, int64(1), l.Name())
	}
}

// everyRule has a limit of each rule that changes little within a test.
func everyRule(quota int64) []*Limit {
	return []*Limit{
		must(FixedWindow("fixed", quota, 1000*time.Hour, ToClock)),
		must(FixedWindow("first", quota, time.Hour, ToFirst)),
		must(FixedWindow("per key", quota, 1000*time.Hour, ToClockPerKey)),
		must(SlidingCounter("counter", quota, 1000*time.Hour)),
		must(SlidingLog("log", quota, time.Hour)),
		must(SlidingBuckets("buckets", quota, time.Hour, 6)),
		must(TokenBucket("bucket", Per(1, time.Hour), quota)),
		must(LeakyMeter("meter", Per(1, time.Hour), quota)),
		must(LeakyQueue("queue", Per(1, time.Hour), quota)),
		must(Quota("month", quota, Month, nil)),
	}
}

// TestStackUnderFire: stacks in every order, of known and of unknown keys, twice
// the same, with refunds; what passed is what is charged, for every limit.
func TestStackUnderFire(t *testing.T) {
	limits := everyRule(3000)
	m := Memory{MaxKeys: 1 << 20}
	var charged [10][4]atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 2))
			each := make([]Decision, 8)
			for range 200 {
				var charges []Charge
				for range 1 + rng.IntN(6) {
					charges = append(charges, limits[rng.IntN(len(limits))].Charge(string(rune('a'+rng.IntN(4))), rng.Int64N(3)))
				}
				d, err := m.TakeInto(context.Background(), each, charges...)
				if err != nil || !d.Allowed {
					continue
				}
				undo := rng.IntN(4) == 0
				if undo {
					_ = m.Refund(context.Background(), charges...)
				}
				for _, c := range charges {
					if !undo {
						for i, l := range limits {
							if l == c.Limit {
								charged[i][c.Key[0]-'a'].Add(c.Cost)
							}
						}
					}
				}
			}
		})
	}
	wg.Wait()
	for i, l := range limits {
		for k := range 4 {
			used := 3000 - take(t, &m, l, string(rune('a'+k)), 0).Remaining
			require.Equal(t, charged[i][k].Load(), used, "%s, key %d", l.Name(), k)
		}
	}
}

// TestStackAllOrNothing: the limit that everybody shares is charged exactly as
// often as users pass, though most of what is asked is refused.
func TestStackAllOrNothing(t *testing.T) {
	user := must(TokenBucket("user", Per(1, time.Hour), 5))
	all := must(TokenBucket("all", Per(1, time.Hour), 200))
	var m Memory
	var passed atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 30 {
				charges := []Charge{user.Charge(fmt.Sprint(g%50), 1), all.Charge("", 1)}
				if i%2 == 0 {
					charges[0], charges[1] = charges[1], charges[0]
				}
				if d, err := m.Take(context.Background(), charges...); err == nil && d.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 200, passed.Load())
	used := int64(0)
	for g := range 50 {
		used += 5 - take(t, &m, user, fmt.Sprint(g), 0).Remaining
	}
	require.EqualValues(t, 200, used, "refused stacks charged nobody")
}

// heap is what the program holds.
func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
