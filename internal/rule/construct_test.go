package rule

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConstructorsRefuseNonsense(t *testing.T) {
	bucket := func(count, period, quota int64) error {
		_, err := NewBucket(TokenBucket, count, period, quota)
		return err
	}
	window := func(quota, window int64) error {
		_, err := NewFixedWindow(quota, window, ToFirst)
		return err
	}
	log := func(quota, window int64) error {
		_, err := NewSlidingLog(quota, window)
		return err
	}
	counter := func(quota, window int64) error {
		_, err := NewSlidingCounter(quota, window)
		return err
	}
	cells := func(quota, window int64, cells int) error {
		_, err := NewSlidingBuckets(quota, window, cells)
		return err
	}
	calendar := func(quota int64, zone *time.Location) error {
		_, err := NewCalendar(quota, false, zone)
		return err
	}
	day := 24 * hour
	for _, c := range []struct {
		err  error
		want string // empty: fine
	}{
		{bucket(0, second, 10), "rate of 0 units is not positive"},
		{bucket(-1, second, 10), "rate of -1 units is not positive"},
		{bucket(1, 0, 10), "rate per 0s is not positive"},
		{bucket(1, -second, 10), "rate per -1s is not positive"},
		{bucket(1, second, 0), "burst 0 is not positive: it could never admit anything"},
		{bucket(1, second, -3), "burst -3 is not positive"},
		{bucket(1, day, 53_375), ""},
		{bucket(1, day, 53_376), "burst 53376 at 1 per 24h0m0s cannot be exact: it may be 53375 at most"},
		{bucket(1, day, 200_000), "it may be 53375 at most"},
		{bucket(math.MaxInt64, 1, 1), "a rate of 9223372036854775807 per 1ns cannot be exact"},
		{bucket(maxSpan, 1, maxSpan), ""},
		{bucket(maxSpan, 1, maxSpan+1), "it may be 4611686018427387904 at most"},
		{bucket(1, math.MaxInt64, 1), "a rate of 1 per 2562047h47m16.854775807s cannot be exact"},
		{bucket(math.MaxInt64, math.MaxInt64, maxSpan), ""}, // one a nanosecond
		{bucket(1_000_000_000, 24*hour, 10_000_000_000), ""},

		{window(0, second), "quota 0 is not positive: it could never admit anything"},
		{window(-1, second), "quota -1 is not positive"},
		{window(1, 0), "window of 0s is not positive"},
		{window(1, -1), "window of -1ns is not positive"},
		{window(1, 1), ""},
		{window(maxSpan, maxWindow), ""},
		{window(maxSpan+1, second), "quota 4611686018427387905 cannot be exact: it may be 4611686018427387904 at most"},
		{window(1, maxWindow+1), "window of 320255h58m24.606846977s is too long: it may be 320255h58m24.606846976s at most"},
		{log(0, second), "quota 0 is not positive"},
		{log(10_000, maxWindow), ""},
		{log(10_001, second), "quota 10001 is too large: a log remembers every request, so it may be 10000 at most"},
		{log(1, 0), "window of 0s is not positive"},
		{counter(0, second), "quota 0 is not positive"},
		{counter(1, -1), "window of -1ns is not positive"},
		{counter(math.MaxUint32, maxWindow), ""},
		{counter(math.MaxUint32+1, second), "quota 4294967296 cannot be exact: a sliding counter's may be 4294967295 at most"},
		{cells(0, second, 10), "quota 0 is not positive"},
		{cells(1, second, 0), "0 cells: there may be 1 to 10000"},
		{cells(1, second, -1), "-1 cells: there may be 1 to 10000"},
		{cells(1, hour, 10_001), "10001 cells: there may be 1 to 10000"},
		{cells(1, second, 3), "3 cells do not divide the window of 1s into whole nanoseconds"},
		{cells(1, 5, 10), "10 cells do not divide the window of 5ns into whole nanoseconds"},
		{cells(maxSpan, maxWindow, 1), ""},
		{calendar(0, time.UTC), "quota 0 is not positive"},
		{calendar(1, nil), "no time zone"},
		{calendar(1, time.FixedZone("x", 17*3600)), "zone x is 17h0m0s from UTC: a zone's clocks may differ by 16h0m0s at most"},
		{calendar(1, time.FixedZone("x", -16*3600-1)), "-16h0m1s from UTC"},
		{calendar(maxSpan, time.UTC), ""},
	} {
		if c.want == "" {
			assert.NoError(t, c.err)
		} else {
			assert.ErrorContains(t, c.err, c.want)
		}
	}
	_, err := NewBucket(FixedWindow, 1, 1, 1)
	require.ErrorContains(t, err, "fixed_window is not a bucket")
	_, err = NewFixedWindow(1, 1, 3)
	require.ErrorContains(t, err, "alignment 3 is unknown")
}

// The largest numbers that a constructor takes are still exact.
func TestLargestNumbers(t *testing.T) {
	for _, r := range []*Rule{
		made(NewBucket(TokenBucket, maxSpan, 1, maxSpan)),
		made(NewBucket(LeakyMeter, maxSpan-1, 1, maxSpan)),
		made(NewBucket(TokenBucket, 1, 1, maxSpan)),
		made(NewBucket(TokenBucket, 1, maxSpan, 1)),
		made(NewBucket(LeakyQueue, 2, maxSpan-1, 1)),
		made(NewBucket(TokenBucket, 3, 1<<30, 1<<32)),
		made(NewBucket(TokenBucket, maxSpan-1, maxSpan-3, 1)),
		made(NewFixedWindow(maxSpan, maxWindow, ToClock)),
		made(NewFixedWindow(maxSpan, maxWindow, ToFirst)),
		made(NewSlidingCounter(math.MaxUint32, maxWindow)),
		made(NewSlidingCounter(math.MaxUint32, 1)),
		made(NewSlidingLog(MaxEntries, maxWindow)),
		made(NewSlidingBuckets(maxSpan, maxWindow, 1)),
		made(NewCalendar(maxSpan, true, time.UTC)),
		made(NewCalendar(1, false, time.FixedZone("x", 16*3600))),
		made(NewCalendar(1, false, time.FixedZone("x", -16*3600))),
	} {
		for _, now := range []int64{0, 1, today, maxSpan - 1} {
			k := keep(r)
			assert.Equal(t, Verdict{Remaining: r.quota}, k.take(now, 0))
			assert.Equal(t, Verdict{Remaining: r.quota, Retry: Never}, k.take(now, r.quota+1))
			assert.Equal(t, Verdict{Remaining: r.quota, Retry: Never}, k.take(now, math.MaxInt64))
			v := k.take(now, r.quota)
			v.Delay = 0
			assert.Equal(t, Verdict{Reset: v.Reset}, v)
			assert.Positive(t, v.Reset)
			assert.LessOrEqual(t, v.Reset, r.memory()+31*24*hour)
			v = k.take(now, r.quota)
			assert.Positive(t, v.Retry, "%v at %d", r.kind, now)
			assert.Zero(t, v.Remaining)
			if then := now + v.Retry; then < maxSpan {
				assert.True(t, k.copy().take(then, r.quota).Allowed(), "%v at %d", r.kind, now)
				assert.False(t, k.copy().take(then-1, r.quota).Allowed(), "%v at %d", r.kind, now)
			}
			k.refund(now, r.quota)
			assert.Equal(t, Verdict{Remaining: r.quota}, k.take(now, 0))
		}
	}
}

func TestDivisor(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	draw := func() int64 { return rng.Int64() >> rng.IntN(63) }
	for range 200_000 {
		d, x := max(draw(), 1), draw()
		v := newDivisor(d)
		for _, x := range []int64{x, x - x%d, x - x%d + d - 1, x/d*d - 1} {
			if x < 0 {
				continue
			}
			if v.floor(x) != x/d || x <= math.MaxInt64-d && v.ceil(x) != (x+d-1)/d {
				t.Fatalf("%d / %d = %d, %d", x, d, v.floor(x), v.ceil(x))
			}
		}
	}
}

// The shift is the same for ever, lies within the window, and spreads keys that
// are alike.
func TestShift(t *testing.T) {
	r := made(NewFixedWindow(10, minute, ToClockPerKey))
	assert.EqualValues(t, 10_528_514_342, r.Shift(""))
	assert.EqualValues(t, 47_622_785_477, r.Shift("user-1"))
	for _, align := range []Align{ToClock, ToFirst} {
		assert.Zero(t, made(NewFixedWindow(10, minute, align)).Shift("user-1"))
	}
	assert.Zero(t, made(NewSlidingCounter(10, minute)).Shift("user-1"))
	var tenths [10]int
	for i := range 10_000 {
		shift := r.Shift("user-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)))
		require.GreaterOrEqual(t, shift, int64(0))
		require.Less(t, shift, minute)
		tenths[shift*10/minute]++
	}
	for _, n := range tenths {
		assert.InDelta(t, 1000, n, 150)
	}
	assert.Zero(t, made(NewFixedWindow(10, 1, ToClockPerKey)).Shift("user-1"))
}
