package limiter_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
)

// arrivals are n requests, the first at from, one every gap.
func arrivals(from time.Duration, n int, gap time.Duration) (at []time.Duration) {
	for i := range n {
		at = append(at, from+time.Duration(i)*gap)
	}
	return at
}

// departures runs requests against a limit in a bubble and returns when those
// that were admitted went on to the service, since a whole minute.
func departures(t *testing.T, l *limiter.Limit, arrivals []time.Duration) (at []time.Duration) {
	var m limiter.Memory
	sleepUntil(1_790_000_040_000_000_000)
	start := time.Now()
	require.Zero(t, start.UnixNano()%int64(time.Minute))
	for _, arrival := range arrivals {
		time.Sleep(time.Until(start.Add(arrival)))
		d, err := m.Take(t.Context(), l.Charge("key", 1))
		require.NoError(t, err)
		if d.Allowed {
			at = append(at, arrival+d.Delay)
		}
	}
	return at
}

// most returns the largest number of instants in any interval [t, t+length).
func most(at []time.Duration, length time.Duration) (n int) {
	slices.Sort(at)
	for i, t := range at {
		last, _ := slices.BinarySearch(at, t+length)
		n = max(n, last-i)
	}
	return n
}

func must(l *limiter.Limit, err error) *limiter.Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// A limit of ten a second against 80 requests that gather about a boundary: the
// most that reach the service in any one second.
func TestBurstExperiment(t *testing.T) {
	eighty := append(arrivals(900*time.Millisecond, 20, 10*time.Millisecond), arrivals(2*time.Second, 60, 25*time.Millisecond)...)
	for _, c := range []struct {
		limit *limiter.Limit
		most  int
	}{
		{must(limiter.FixedWindow("fixed window", 10, time.Second, limiter.ToClock)), 20},
		{must(limiter.SlidingLog("sliding log", 10, time.Second)), 10},
		{must(limiter.SlidingCounter("sliding counter", 10, time.Second)), 11},
		{must(limiter.TokenBucket("token bucket", limiter.Per(10, time.Second), 10)), 19},
		{must(limiter.LeakyQueue("leaky queue", limiter.Per(10, time.Second), 10)), 10},

		{must(limiter.LeakyMeter("leaky meter", limiter.Per(10, time.Second), 10)), 19},
		{must(limiter.SlidingBuckets("sliding buckets", 10, time.Second, 10)), 10},
		{must(limiter.FixedWindow("fixed window, from the first", 10, time.Second, limiter.ToFirst)), 10},
	} {
		t.Run(c.limit.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				assert.Equal(t, c.most, most(departures(t, c.limit, eighty), time.Second))
			})
		})
	}
}

// Twenty requests in the 200 ms about a boundary, and ten a second against 600
// a minute, which sound alike.
func TestBoundary(t *testing.T) {
	run := func(l *limiter.Limit, arrivals []time.Duration, length time.Duration) (n int) {
		synctest.Test(t, func(t *testing.T) { n = most(departures(t, l, arrivals), length) })
		return n
	}
	twenty := arrivals(900*time.Millisecond, 20, 10*time.Millisecond)
	assert.Equal(t, 20, run(must(limiter.FixedWindow("w", 10, time.Second, limiter.ToClock)), twenty, 200*time.Millisecond))
	assert.Equal(t, 10, run(must(limiter.SlidingLog("w", 10, time.Second)), twenty, 200*time.Millisecond))
	assert.Equal(t, 11, run(must(limiter.TokenBucket("w", limiter.Per(10, time.Second), 10)), twenty, 200*time.Millisecond))

	flood := arrivals(59700*time.Millisecond, 2600, 500*time.Microsecond) // from just before the minute
	minute := must(limiter.FixedWindow("w", 600, time.Minute, limiter.ToClock))
	second := must(limiter.FixedWindow("w", 10, time.Second, limiter.ToClock))
	bucket := must(limiter.TokenBucket("w", limiter.Per(10, time.Second), 10))
	assert.Equal(t, 1200, run(minute, flood, time.Second))
	assert.Equal(t, 20, run(second, flood, time.Second))
	assert.Equal(t, 19, run(bucket, flood, time.Second))
}
