package limiter_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // the zones, wherever this runs

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/pacer"
)

// The names and types that programs compile against. A change here breaks them.
var (
	_ func(string, int64, time.Duration, limiter.Alignment) (*limiter.Limit, error) = limiter.FixedWindow
	_ func(string, int64, time.Duration) (*limiter.Limit, error)                    = limiter.SlidingLog
	_ func(string, int64, time.Duration) (*limiter.Limit, error)                    = limiter.SlidingCounter
	_ func(string, int64, time.Duration, int) (*limiter.Limit, error)               = limiter.SlidingBuckets
	_ func(string, limiter.Rate, int64) (*limiter.Limit, error)                     = limiter.TokenBucket
	_ func(string, limiter.Rate, int64) (*limiter.Limit, error)                     = limiter.LeakyMeter
	_ func(string, limiter.Rate, int64) (*limiter.Limit, error)                     = limiter.LeakyQueue
	_ func(string, int64, limiter.Period, *time.Location) (*limiter.Limit, error)   = limiter.Quota
	_ func(int64, time.Duration) limiter.Rate                                       = limiter.Per
	_ func(*limiter.Limit, string, int64) limiter.Charge                            = (*limiter.Limit).Charge
	_ func(*limiter.Limit, *limiter.Limit) *limiter.Limit                           = (*limiter.Limit).Replacing
	_ limiter.Store                                                                 = &limiter.Memory{}
	_ interface {
		TakeInto(context.Context, []limiter.Decision, ...limiter.Charge) (limiter.Decision, error)
	} = &limiter.Memory{}

	_ = []limiter.Alignment{limiter.ToClock, limiter.ToFirst, limiter.ToClockPerKey}
	_ = []limiter.FailurePolicy{limiter.Open, limiter.Closed, limiter.Local}
	_ = []limiter.Period{limiter.Day, limiter.Month}
	_ = limiter.Limit{Global: true, OnFailure: limiter.Open}
	_ = limiter.Charge{Limit: nil, Key: "", Cost: 0}
	_ = limiter.Decision{
		Allowed: true, Never: false, By: nil, Quota: 0, Remaining: 0, RetryAfter: 0, ResetAfter: 0, Delay: 0,
		Degraded: error(nil), Each: []limiter.Decision{},
	}
	_ = limiter.Rate(pacer.Rate{Count: 1, Per: time.Second})
	_ = pacer.Rate(limiter.Rate{Count: 1, Per: time.Second})
)

func TestConstructorsNameWhatIsWrong(t *testing.T) {
	err := func(_ *limiter.Limit, err error) error { return err }
	second := limiter.Per(10, time.Second)
	for _, c := range []struct {
		err  error
		want string
	}{
		{err(limiter.FixedWindow("w", 0, time.Second, limiter.ToClock)), `limiter: FixedWindow "w": quota 0 is not positive: it could never admit anything`},
		{err(limiter.FixedWindow("w", 1, -time.Second, limiter.ToClock)), `limiter: FixedWindow "w": window of -1s is not positive`},
		{err(limiter.FixedWindow("w", 1, time.Second, 7)), `limiter: FixedWindow "w": alignment 7 is none of ToClock, ToFirst and ToClockPerKey`},
		{err(limiter.FixedWindow("w", 1, time.Second, -1)), `limiter: FixedWindow "w": alignment -1 is none of ToClock, ToFirst and ToClockPerKey`},
		{err(limiter.FixedWindow("", 1, time.Second, limiter.ToClock)), `limiter: FixedWindow "": the name is empty: answers and hooks tell limits apart by it`},
		{err(limiter.FixedWindow("größe", 1, time.Second, limiter.ToClock)), `limiter: FixedWindow "größe": the name has a byte that is not printable ASCII, and cannot stand in a header field`},
		{err(limiter.FixedWindow("a\nb", 1, time.Second, limiter.ToClock)), `the name has a byte that is not printable ASCII`},
		{err(limiter.FixedWindow("a\x7f", 1, time.Second, limiter.ToClock)), `the name has a byte that is not printable ASCII`},
		{err(limiter.SlidingLog("l", 10_001, time.Second)), `limiter: SlidingLog "l": quota 10001 is too large: a log remembers every request, so it may be 10000 at most`},
		{err(limiter.SlidingCounter("c", math.MaxInt64, time.Second)), `limiter: SlidingCounter "c": quota 9223372036854775807 cannot be exact`},
		{err(limiter.SlidingBuckets("b", 10, time.Second, 7)), `limiter: SlidingBuckets "b": 7 cells do not divide the window of 1s into whole nanoseconds`},
		{err(limiter.SlidingBuckets("b", 10, time.Second, 0)), `limiter: SlidingBuckets "b": 0 cells: there may be 1 to 10000`},
		{err(limiter.TokenBucket("t", second, 0)), `limiter: TokenBucket "t": burst 0 is not positive`},
		{err(limiter.TokenBucket("t", second, -1)), `limiter: TokenBucket "t": burst -1 is not positive`},
		{err(limiter.TokenBucket("t", limiter.Rate{}, 1)), `limiter: TokenBucket "t": rate of 0 units is not positive`},
		{err(limiter.TokenBucket("t", limiter.Per(1, 0), 1)), `limiter: TokenBucket "t": rate per 0s is not positive`},
		{err(limiter.TokenBucket("t", second, math.MaxInt64)), `limiter: TokenBucket "t": burst 9223372036854775807 at 10 per 1s cannot be exact: it may be 46116860184 at most`},
		{err(limiter.LeakyMeter("m", second, 0)), `limiter: LeakyMeter "m": capacity 0 is not positive`},
		{err(limiter.LeakyQueue("q", second, 0)), `limiter: LeakyQueue "q": capacity 0 is not positive`},
		{err(limiter.Quota("d", 0, limiter.Day, nil)), `limiter: Quota "d": quota 0 is not positive`},
		{err(limiter.Quota("d", 1, 0, nil)), `limiter: Quota "d": period 0 is neither Day nor Month`},
	} {
		assert.ErrorContains(t, c.err, c.want)
	}
	for _, name := range []string{" ", "~", `per "user" \ hour`, "user:read, write;q=1"} {
		assert.NoError(t, err(limiter.TokenBucket(name, second, 1)), name)
	}
}

// Stores elsewhere build the rule anew from what a Limit tells.
func TestLimitTellsItsNumbers(t *testing.T) {
	type told struct {
		kind   string
		quota  int64
		window time.Duration
		rate   limiter.Rate
		burst  int64
		cells  int
		align  limiter.Alignment
	}
	for _, c := range []struct {
		limit *limiter.Limit
		want  told
	}{
		{must(limiter.FixedWindow("n", 5, time.Hour, limiter.ToClockPerKey)), told{kind: "fixed_window", quota: 5, window: time.Hour, align: limiter.ToClockPerKey}},
		{must(limiter.FixedWindow("n", 5, time.Hour, limiter.ToFirst)), told{kind: "fixed_window", quota: 5, window: time.Hour, align: limiter.ToFirst}},
		{must(limiter.SlidingLog("n", 5, time.Hour)), told{kind: "sliding_log", quota: 5, window: time.Hour}},
		{must(limiter.SlidingCounter("n", 5, time.Hour)), told{kind: "sliding_counter", quota: 5, window: time.Hour}},
		{must(limiter.SlidingBuckets("n", 5, time.Hour, 60)), told{kind: "sliding_buckets", quota: 5, window: time.Hour, cells: 60}},
		{must(limiter.TokenBucket("n", limiter.Per(600, time.Minute), 40)), told{kind: "token_bucket", quota: 40, window: 4 * time.Second, rate: limiter.Per(600, time.Minute), burst: 40}},
		{must(limiter.LeakyMeter("n", limiter.Per(7, time.Second), 1)), told{kind: "leaky_meter", quota: 1, window: 142_857_143, rate: limiter.Per(7, time.Second), burst: 1}},
		{must(limiter.LeakyQueue("n", limiter.Per(2, time.Second), 3)), told{kind: "leaky_queue", quota: 3, window: 1500 * time.Millisecond, rate: limiter.Per(2, time.Second), burst: 3}},
		{must(limiter.Quota("n", 5, limiter.Month, nil)), told{kind: "calendar", quota: 5}},
	} {
		l := c.limit
		assert.Equal(t, "n", l.Name())
		assert.Equal(t, c.want, told{l.Kind(), l.Quota(), l.Window(), l.Rate(), l.Burst(), l.Cells(), l.Align()})
		period, zone := l.Calendar()
		if l.Kind() == "calendar" {
			assert.Equal(t, limiter.Month, period)
			assert.Equal(t, time.UTC, zone)
		} else {
			assert.Zero(t, period)
			assert.Nil(t, zone)
		}
		assert.Equal(t, limiter.Charge{Limit: l, Key: "k", Cost: 3}, l.Charge("k", 3))
	}
	assert.Equal(t, "100 per 1m0s", limiter.Per(100, time.Minute).String())
}

// A limit that is replaced several times, by other numbers and other rules,
// forgets nothing; and keys that were asked about meanwhile and keys that were
// not fare alike.
func TestReplacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m limiter.Memory
		take := func(l *limiter.Limit, key string, cost int64) limiter.Decision {
			d, err := m.Take(t.Context(), l.Charge(key, cost))
			require.NoError(t, err)
			return d
		}
		ten := must(limiter.FixedWindow("w", 10, time.Hour, limiter.ToFirst))
		for _, key := range []string{"seen", "unseen"} {
			require.True(t, take(ten, key, 4).Allowed)
		}
		three := must(limiter.FixedWindow("w", 3, time.Hour, limiter.ToFirst)).Replacing(ten)
		assert.Zero(t, take(three, "seen", 0).Remaining)
		assert.False(t, take(three, "seen", 1).Allowed)
		twenty := must(limiter.FixedWindow("w", 20, time.Hour, limiter.ToFirst)).Replacing(three)
		again := must(limiter.FixedWindow("w", 20, time.Hour, limiter.ToFirst)).Replacing(twenty) // a reload without a change
		for _, key := range []string{"seen", "unseen"} {
			assert.EqualValues(t, 16, take(again, key, 0).Remaining, key)
			assert.EqualValues(t, 15, take(again, key, 1).Remaining, key)
			assert.EqualValues(t, 14, take(twenty, key, 1).Remaining, key)
		}
		assert.EqualValues(t, 20, take(again, "new", 0).Remaining)
		log := must(limiter.SlidingLog("w", 8, time.Hour)).Replacing(again)
		assert.EqualValues(t, 2, take(log, "seen", 0).Remaining)
		assert.True(t, take(log, "seen", 2).Allowed)
		bucket := must(limiter.TokenBucket("w", limiter.Per(1, time.Minute), 9)).Replacing(log)
		assert.EqualValues(t, 1, take(bucket, "seen", 0).Remaining)
		assert.EqualValues(t, 3, take(bucket, "unseen", 0).Remaining)
		time.Sleep(time.Minute)
		assert.EqualValues(t, 2, take(bucket, "seen", 0).Remaining)
	})
}

func TestReplacingKeepsItsFields(t *testing.T) {
	old := must(limiter.Quota("d", 5, limiter.Day, time.UTC))
	l := must(limiter.Quota("d", 6, limiter.Day, time.UTC))
	l.Global, l.OnFailure = true, limiter.Closed
	n := l.Replacing(old)
	assert.True(t, n.Global)
	assert.Equal(t, limiter.Closed, n.OnFailure)
	assert.EqualValues(t, 6, n.Quota())
	period, zone := n.Calendar()
	assert.Equal(t, limiter.Day, period)
	assert.Equal(t, time.UTC, zone)
	assert.Equal(t, n, n.Replacing(nil))
	assert.Equal(t, n, n.Replacing(n))
}

// A calendar quota beside a rate: what is left of it is in the answer, and it
// starts anew with the day of its zone, here one of 25 hours.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone, err := time.LoadLocation("America/New_York")
		require.NoError(t, err)
		day := must(limiter.Quota("day", 5, limiter.Day, zone))
		rate := must(limiter.TokenBucket("rate", limiter.Per(1, time.Second), 3))
		var m limiter.Memory
		take := func(cost int64) limiter.Decision {
			d, err := m.Take(t.Context(), day.Charge("k", cost), rate.Charge("k", cost))
			require.NoError(t, err)
			return d
		}
		sleepUntil(time.Date(2026, 11, 1, 0, 0, 0, 0, zone).UnixNano())
		d := take(3)
		assert.True(t, d.Allowed)
		assert.Equal(t, limiter.Decision{Allowed: true, By: day, Quota: 5, Remaining: 2, ResetAfter: 25 * time.Hour}, d.Each[0])
		d = take(1)
		assert.Equal(t, rate, d.By)
		assert.Equal(t, time.Second, d.RetryAfter)
		assert.EqualValues(t, 2, d.Each[0].Remaining)
		time.Sleep(3 * time.Second)
		assert.True(t, take(2).Allowed)
		d = take(1)
		assert.Equal(t, day, d.By)
		assert.Equal(t, 25*time.Hour-3*time.Second, d.RetryAfter)
		time.Sleep(d.RetryAfter - time.Nanosecond)
		assert.False(t, take(1).Allowed)
		time.Sleep(time.Nanosecond)
		d = take(1)
		assert.True(t, d.Allowed)
		assert.Equal(t, 24*time.Hour, d.Each[0].ResetAfter)
	})
}
