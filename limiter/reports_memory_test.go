package limiter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
)

// memory is a Memory whose every Take of one charge succeeds.
type memory struct {
	limiter.Memory
	t *testing.T
}

func newMemory(t *testing.T) *memory { return &memory{t: t} }

func (m *memory) take(l *limiter.Limit, cost int64) limiter.Decision { return m.takeOf(l, "k", cost) }

func (m *memory) takeOf(l *limiter.Limit, key string, cost int64) limiter.Decision {
	m.t.Helper()
	d, err := m.Take(m.t.Context(), l.Charge(key, cost))
	require.NoError(m.t, err)
	return d
}

func idleInterval(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.TokenBucket("bucket", limiter.Per(65_535, time.Second), 65_535))
	require.EqualValues(t, 65_534, m.take(l, 1).Remaining)
	time.Sleep(time.Second)
	require.EqualValues(t, 65_535, m.take(l, 0).Remaining)
	require.True(t, m.take(l, 65_535).Allowed)
	time.Sleep(time.Second)
	require.EqualValues(t, 65_535, m.take(l, 0).Remaining)
}

func windowNotExtended(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.FixedWindow("window", 2, time.Second, limiter.ToFirst))
	require.True(t, m.take(l, 1).Allowed)
	time.Sleep(600 * time.Millisecond)
	require.Equal(t, 400*time.Millisecond, m.take(l, 1).ResetAfter)
	require.Equal(t, 400*time.Millisecond, m.take(l, 1).RetryAfter)
	require.Equal(t, 400*time.Millisecond, m.take(l, 0).RetryAfter)
	time.Sleep(400 * time.Millisecond)
	require.EqualValues(t, 1, m.take(l, 1).Remaining)
}

func zeroRate(t *testing.T) {
	for _, f := range []func() (*limiter.Limit, error){
		func() (*limiter.Limit, error) { return limiter.TokenBucket("b", limiter.Per(0, time.Second), 1) },
		func() (*limiter.Limit, error) { return limiter.TokenBucket("b", limiter.Per(1, time.Second), 0) },
		func() (*limiter.Limit, error) { return limiter.LeakyQueue("b", limiter.Per(1, 0), 1) },
		func() (*limiter.Limit, error) { return limiter.FixedWindow("b", 0, time.Second, limiter.ToClock) },
		func() (*limiter.Limit, error) { return limiter.SlidingLog("b", 1, 0) },
		func() (*limiter.Limit, error) { return limiter.Quota("b", 0, limiter.Day, nil) },
	} {
		l, err := f()
		require.ErrorContains(t, err, "limiter: ")
		require.Nil(t, l)
	}
}

func oneHitLeaves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := newMemory(t)
	for range 3000 {
		burst := 1 + rng.Int64N(1000)
		l := must(limiter.TokenBucket("bucket", limiter.Per(1+rng.Int64N(1000), time.Duration(1+rng.Int64N(int64(time.Hour)))), burst))
		d := m.take(l, 1)
		require.Equal(t, burst-1, d.Remaining)
		require.Zero(t, d.RetryAfter)
	}
}

func millionAnHour(t *testing.T) {
	l := must(limiter.TokenBucket("bucket", limiter.Per(1_000_000, time.Hour), 1_000_000))
	require.EqualValues(t, 999_999, newMemory(t).take(l, 1).Remaining)
}

func polling(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.TokenBucket("bucket", limiter.Per(1, 10*time.Second), 1))
	for range 3 {
		require.Zero(t, m.take(l, 1).RetryAfter)
		for left := 10 * time.Second; left > 0; left -= 500 * time.Millisecond {
			d := m.take(l, 1)
			require.False(t, d.Allowed)
			require.Equal(t, left, d.RetryAfter)
			time.Sleep(500 * time.Millisecond)
		}
	}
}

func contended(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.TokenBucket("bucket", limiter.Per(1, time.Second), 1000))
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 50 {
				if d, err := m.Take(context.Background(), l.Charge("k", 1)); err != nil {
					t.Error(err)
				} else if d.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1000, passed.Load())
}

func idleHours(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.TokenBucket("bucket", limiter.Per(1000, time.Second), 100))
	m.take(l, 100)
	time.Sleep(12 * time.Hour)
	require.EqualValues(t, 100, m.take(l, 0).Remaining)
}

func waitIsTheRest(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.TokenBucket("bucket", limiter.Per(1, time.Second), 1))
	m.take(l, 1)
	time.Sleep(200 * time.Millisecond)
	require.Equal(t, 800*time.Millisecond, m.take(l, 1).RetryAfter)
}

func steadyHits(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.LeakyMeter("meter", limiter.Per(3, time.Second), 3))
	admitted := 0
	for i := range 100 { // 0 to 9.9 s
		if m.take(l, 1).Allowed {
			admitted++
		}
		require.LessOrEqual(t, admitted*1000, 3000+3*i*100)
		time.Sleep(100 * time.Millisecond)
	}
	require.Equal(t, 3+29, admitted)
}

func tokenEveryThree(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.TokenBucket("bucket", limiter.Per(10, 30*time.Second), 10))
	admitted := 0
	for range 61 { // 0 to 60 s
		if m.take(l, 1).Allowed {
			admitted++
		}
		time.Sleep(time.Second)
	}
	require.Equal(t, 10+20, admitted)
}

func longIdle(t *testing.T) {
	m := newMemory(t)
	for _, l := range []*limiter.Limit{
		must(limiter.LeakyMeter("meter", limiter.Per(7, 11*time.Minute), 5)),
		must(limiter.TokenBucket("bucket", limiter.Per(999_983, time.Second), 5)),
		must(limiter.SlidingCounter("counter", 5, time.Minute)),
	} {
		m.take(l, 3)
		time.Sleep(2000 * time.Hour)
		require.EqualValues(t, 4, m.take(l, 1).Remaining)
	}
}

func dayDoesNotRefill(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.Quota("day", 10, limiter.Day, nil))
	time.Sleep(5 * time.Hour)
	require.EqualValues(t, 6, m.take(l, 4).Remaining)
	for range 100 {
		time.Sleep(10 * time.Millisecond)
		require.EqualValues(t, 6, m.take(l, 0).Remaining)
	}
	time.Sleep(19*time.Hour - time.Second - time.Nanosecond)
	require.EqualValues(t, 6, m.take(l, 0).Remaining)
	time.Sleep(time.Nanosecond)
	require.EqualValues(t, 10, m.take(l, 0).Remaining)
}

func raisedAndLowered(t *testing.T) {
	m := newMemory(t)
	window := func(quota int64) *limiter.Limit {
		return must(limiter.FixedWindow("window", quota, time.Minute, limiter.ToFirst))
	}
	ten := window(10)
	m.take(ten, 4)
	time.Sleep(20 * time.Second)
	twenty := window(20).Replacing(ten)
	d := m.take(twenty, 0)
	require.EqualValues(t, 16, d.Remaining)
	require.Equal(t, 40*time.Second, d.ResetAfter, "in the same window")
	three := window(3).Replacing(twenty)
	d = m.take(three, 1)
	require.False(t, d.Allowed)
	require.Zero(t, d.Remaining)
	require.Equal(t, 40*time.Second, d.RetryAfter)
	time.Sleep(40 * time.Second)
	require.EqualValues(t, 3, m.take(three, 0).Remaining)
}

func raisedAfterRefusal(t *testing.T) {
	m := newMemory(t)
	one := must(limiter.FixedWindow("window", 1, time.Minute, limiter.ToFirst))
	require.True(t, m.take(one, 1).Allowed)
	require.False(t, m.take(one, 1).Allowed)
	ten := must(limiter.FixedWindow("window", 10, time.Minute, limiter.ToFirst)).Replacing(one)
	d := m.take(ten, 1)
	require.True(t, d.Allowed)
	require.EqualValues(t, 8, d.Remaining)
}

func february(t *testing.T) {
	time.Sleep(time.Until(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)))
	l := must(limiter.Quota("month", 1, limiter.Month, nil))
	require.Equal(t, 2_419_200_000*time.Millisecond, newMemory(t).take(l, 1).ResetAfter)
}

func drainedFast(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.LeakyMeter("meter", limiter.Per(5000, time.Second), 5000))
	require.Equal(t, time.Second, m.take(l, 5000).ResetAfter)
	require.Equal(t, 200*time.Microsecond, m.take(l, 1).RetryAfter)
}

func refusalsAreFree(t *testing.T) {
	m := newMemory(t)
	user := must(limiter.TokenBucket("user", limiter.Per(1, time.Hour), 1))
	tenant := must(limiter.TokenBucket("tenant", limiter.Per(1, time.Hour), 50))
	m.take(user, 1)
	for range 100 {
		d, err := m.Take(t.Context(), tenant.Charge("t", 1), user.Charge("k", 1))
		require.NoError(t, err)
		require.False(t, d.Allowed)
	}
	require.EqualValues(t, 50, m.takeOf(tenant, "t", 0).Remaining)
}

func namesTheLimit(t *testing.T) {
	m := newMemory(t)
	limits := []*limiter.Limit{
		must(limiter.TokenBucket("a", limiter.Per(1, time.Hour), 50)),
		must(limiter.FixedWindow("b", 2, time.Hour, limiter.ToFirst)),
		must(limiter.SlidingLog("c", 50, time.Hour)),
	}
	for i := range 3 {
		d, err := m.Take(t.Context(), limits[0].Charge("k", 1), limits[1].Charge("k", 1), limits[2].Charge("k", 1))
		require.NoError(t, err)
		require.Equal(t, i < 2, d.Allowed)
		if i == 2 {
			require.Same(t, limits[1], d.By)
			require.Equal(t, "b", d.By.Name())
		}
	}
}

func instantOfExpiry(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.FixedWindow("window", 5, time.Second, limiter.ToFirst))
	m.take(l, 5)
	time.Sleep(time.Second)
	d := m.take(l, 1)
	require.EqualValues(t, 4, d.Remaining)
	require.Equal(t, time.Second, d.ResetAfter)
}

func largeLog(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.SlidingLog("log", 10_000, time.Minute))
	require.True(t, m.take(l, 10_000).Allowed)
	require.False(t, m.take(l, 1).Allowed)
	_, err := limiter.SlidingLog("log", 10_001, time.Minute)
	require.ErrorContains(t, err, "10001")
}

func counterOfOne(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.SlidingCounter("counter", 1, time.Minute))
	require.True(t, m.take(l, 1).Allowed)
	require.False(t, m.take(l, 1).Allowed)
}

func readLeft(t *testing.T) {
	m := newMemory(t)
	for _, l := range []*limiter.Limit{
		must(limiter.SlidingCounter("counter", 10, time.Minute)),
		must(limiter.SlidingLog("log", 10, time.Minute)),
	} {
		require.EqualValues(t, 10, m.take(l, 0).Remaining)
		require.Zero(t, m.Stats().Keys)
	}
}

func fastAndSlow(t *testing.T) {
	m := newMemory(t)
	fast := must(limiter.TokenBucket("fast", limiter.Per(10_000, time.Second), 10_000))
	m.take(fast, 10_000)
	time.Sleep(500 * time.Millisecond)
	require.EqualValues(t, 5000, m.take(fast, 0).Remaining, "it refills within the second")
	slow := must(limiter.TokenBucket("slow", limiter.Per(1, 10*time.Second), 1))
	require.True(t, m.take(slow, 1).Allowed)
	require.Equal(t, 10*time.Second, m.take(slow, 1).RetryAfter)
}

func cycles(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.FixedWindow("window", 3, 10*time.Second, limiter.ToFirst))
	var mu sync.Mutex
	at := map[time.Duration]int{}
	start := time.Now()
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			for { // until admitted, or past 12 s
				d, err := m.Take(context.Background(), l.Charge("k", 1))
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					mu.Lock()
					at[time.Since(start)]++
					mu.Unlock()
					return
				}
				if time.Since(start)+d.RetryAfter > 12*time.Second {
					return
				}
				time.Sleep(d.RetryAfter)
			}
		})
	}
	wg.Wait()
	require.Equal(t, map[time.Duration]int{0: 3, 10 * time.Second: 3}, at)

	wide := must(limiter.TokenBucket("bucket", limiter.Per(10, time.Second), 100))
	narrow := must(limiter.TokenBucket("bucket", limiter.Per(10, time.Second), 5)).Replacing(wide)
	m.take(wide, 10)
	m.take(narrow, 5)
	time.Sleep(time.Second)
	require.Positive(t, m.take(narrow, 0).Remaining, "it refills though there was more than it may hold")

	_, err := limiter.TokenBucket("bucket", limiter.Per(1, 1<<62), 1000)
	require.ErrorContains(t, err, "limiter: TokenBucket")
}

func catchUp(t *testing.T) {
	m := newMemory(t)
	queue := must(limiter.LeakyQueue("queue", limiter.Per(10, time.Second), 100))
	bucket := must(limiter.TokenBucket("bucket", limiter.Per(10, time.Second), 10))
	m.take(queue, 1)
	m.take(bucket, 1)
	time.Sleep(30 * time.Second)
	admitted := 0
	for i := range 50 {
		require.Equal(t, time.Duration(i+1)*100*time.Millisecond, m.take(queue, 1).Delay, "evenly, without a burst")
		if m.take(bucket, 1).Allowed {
			admitted++
		}
	}
	require.Equal(t, 10, admitted)
}

func givenBack(t *testing.T) {
	m := newMemory(t)
	queue := must(limiter.LeakyQueue("queue", limiter.Per(1, time.Second), 30))
	for _, c := range []struct {
		cost int64
		left time.Duration
	}{{15, 15 * time.Second}, {10, 25 * time.Second}, {2, 27 * time.Second}} {
		require.Equal(t, c.left, m.take(queue, c.cost).Delay)
	}
	require.NoError(t, m.Refund(t.Context(), queue.Charge("k", 10)))
	require.EqualValues(t, 13, m.take(queue, 0).Remaining, "what the second took, once")
	require.NoError(t, m.Refund(t.Context(), queue.Charge("k", 100)))
	require.EqualValues(t, 30, m.take(queue, 0).Remaining, "never more than it holds")
}

func aboveBurst(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.TokenBucket("bucket", limiter.Per(1, time.Second), 10))
	d := m.take(l, 11)
	require.False(t, d.Allowed)
	require.True(t, d.Never)
	require.EqualValues(t, 10, d.Remaining)
	require.True(t, m.take(l, 1).Allowed)
}

func oneShotKeys(t *testing.T) {
	m := newMemory(t)
	m.MaxKeys = 10_000
	l := must(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 1))
	require.True(t, m.takeOf(l, "", 1).Allowed)
	n := 1_000_000
	if limiter.Raced { // takes a minute
		n = 20_000
	}
	for i := range n {
		_, _ = m.Take(t.Context(), l.Charge(fmt.Sprint(i), 1))
	}
	require.False(t, m.takeOf(l, "", 1).Allowed, "the empty key is a key")
	st := m.Stats()
	require.Equal(t, 10_000, st.Keys-st.Overflow)
	require.LessOrEqual(t, st.Bytes, int64(10_100*64))
}

func forgetsOnlyFresh(t *testing.T) {
	m := newMemory(t)
	long := must(limiter.TokenBucket("long", limiter.Per(1, time.Hour), 1))
	short := must(limiter.TokenBucket("short", limiter.Per(1, time.Second), 1))
	for i := range 1000 {
		m.takeOf(long, fmt.Sprint(i), 1)
		m.takeOf(short, fmt.Sprint(i), 1)
	}
	for range 3000 {
		time.Sleep(time.Millisecond)
		m.take(short, 1)
	}
	st := m.Stats()
	require.GreaterOrEqual(t, st.Keys, 1000)
	require.LessOrEqual(t, st.Keys, 1200, "of those of a second")
	for i := range 1000 {
		require.False(t, m.takeOf(long, fmt.Sprint(i), 1).Allowed)
	}
}

func logForgets(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.SlidingLog("log", 2, time.Second))
	for range 5 {
		require.True(t, m.take(l, 2).Allowed)
		require.False(t, m.take(l, 1).Allowed)
		time.Sleep(time.Second)
	}
}
