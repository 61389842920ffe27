package rule

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)
	today  = int64(1_790_000_000_000_000_000)
)

func made(r *Rule, err error) *Rule {
	if err != nil {
		panic(err)
	}
	return r
}

func newYork(t testing.TB) *time.Location {
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	return zone
}

// everyRule is a rule of each kind, with numbers that do not divide each other.
func everyRule(t testing.TB) []*Rule {
	return []*Rule{
		made(NewBucket(TokenBucket, 7, 11*second, 10)),
		made(NewBucket(LeakyMeter, 700_000, second, 900_000)),
		made(NewBucket(LeakyQueue, 3, second, 7)),
		made(NewFixedWindow(10, 7*second, ToClock)),
		made(NewFixedWindow(10, 7*second, ToFirst)),
		made(NewSlidingCounter(100, 13*second)),
		made(NewSlidingLog(10, 7*second)),
		made(NewSlidingBuckets(10, 12*second, 4)),
		made(NewCalendar(10, false, newYork(t))),
	}
}

// memory is how long the rule remembers anything.
func (r *Rule) memory() int64 {
	switch r.kind {
	case SlidingCounter:
		return 2 * r.window
	case SlidingBuckets:
		return r.window + r.cell
	case Calendar:
		return 25 * hour
	}
	return r.Window()
}

// check runs a property over random sources.
func check(t *testing.T, times int, property func(rng *rand.Rand) bool) {
	t.Helper()
	err := quick.Check(func(seed uint64) bool {
		return property(rand.New(rand.NewPCG(seed, 2)))
	}, &quick.Config{MaxCount: times})
	require.NoError(t, err)
}

func TestMeterIsTheBucketsMirrorImage(t *testing.T) {
	check(t, 500, func(rng *rand.Rand) bool {
		count, period, quota := 1+rng.Int64N(1000), 1+rng.Int64N(hour), 1+rng.Int64N(1000)
		bucket := keep(made(NewBucket(TokenBucket, count, period, quota)))
		meter := keep(made(NewBucket(LeakyMeter, count, period, quota)))
		queue := keep(made(NewBucket(LeakyQueue, count, period, quota)))
		now := today
		for range 50 {
			now += rng.Int64N(2 * bucket.rule.Window() / int64(1+rng.IntN(100)))
			c := cost(rng, quota)
			v, w, x := bucket.take(now, c), meter.take(now, c), queue.take(now, c)
			x.Delay = 0
			if v != w || v != x {
				return false
			}
		}
		return true
	})
}

// With every rule: waiting Retry is enough, and one nanosecond less is not. A
// refusal and a question change nothing.
func TestRetryIsTheFirstInstant(t *testing.T) {
	for _, r := range everyRule(t) {
		refused := 0
		check(t, rounds(300), func(rng *rand.Rand) bool {
			k, now := keep(r), today+rng.Int64N(hour)
			for range 60 {
				now += gap(rng, min(r.memory(), hour)/20)
				c := cost(rng, r.quota)
				before := k.copy()
				v := k.take(now, c)
				if !v.Allowed() || c == 0 {
					if before.copy().take(now, 1) != k.copy().take(now, 1) || before.state != k.state {
						return false
					}
				}
				if v.Retry == 0 || v.Retry == Never {
					if (v.Retry == Never) != (c > r.quota) {
						return false
					}
					continue
				}
				refused++
				if !k.copy().take(now+v.Retry, c).Allowed() || k.copy().take(now+v.Retry-1, c).Allowed() {
					return false
				}
			}
			return true
		})
		assert.Greater(t, refused, rounds(1000), "%v", r.kind)
	}
}

// What is fresh cannot be told from a key never seen, by anything to come.
func TestFreshIsAsNew(t *testing.T) {
	for _, r := range everyRule(t) {
		check(t, rounds(200), func(rng *rand.Rand) bool {
			k, now := keep(r), today+rng.Int64N(hour)
			var v Verdict
			for range 20 {
				now += gap(rng, r.memory()/20)
				v = k.take(now, cost(rng, r.quota))
			}
			if k.fresh(now) != (v.Reset == 0) || v.Reset > 0 && k.fresh(now+v.Reset-1) || !k.fresh(now+v.Reset) {
				return false
			}
			now += v.Reset
			for fresh := keep(r); now < today+100*r.memory(); now += gap(rng, r.memory()/5) {
				c := cost(rng, r.quota)
				if rng.IntN(10) == 0 {
					k.refund(now, c)
					fresh.refund(now, c)
				}
				if k.take(now, c) != fresh.take(now, c) {
					return false
				}
			}
			return true
		})
	}
}

func TestRefundIsClamped(t *testing.T) {
	for _, r := range everyRule(t) {
		check(t, 300, func(rng *rand.Rand) bool {
			k, now := keep(r), today+rng.Int64N(hour)
			for range 40 {
				now += gap(rng, r.memory()/20)
				before := k.copy().take(now, 0)
				c := cost(rng, r.quota)
				took := k.take(now, c)
				if took.Allowed() { // back at once: as if it had never been
					k.refund(now, c)
					after := k.copy().take(now, 0)
					if after.Remaining != before.Remaining || r.kind <= LeakyQueue && after != before {
						return false
					}
					k.take(now, c)
				}
				if rng.IntN(4) == 0 {
					left := k.copy().take(now, 0).Remaining
					back := cost(rng, r.quota)
					k.refund(now, back)
					after := k.copy().take(now, 0).Remaining
					// A window's older units weigh less than they did.
					exact := r.kind != SlidingCounter && after != min(left+back, r.quota)
					if exact || after < left || after > min(left+back, r.quota) {
						return false
					}
				}
			}
			k.refund(now, math.MaxInt64)
			return k.copy().take(now, r.quota).Allowed() && k.fresh(now)
		})
	}
	k := keep(everyRule(t)[0])
	k.take(today, 3)
	k.refund(today, 0)
	k.refund(today, -5)
	assert.EqualValues(t, 7, k.take(today, 0).Remaining)
	assert.EqualValues(t, 7, k.take(today, -5).Remaining, "a negative cost asks")
}

// A clock that steps back creates nothing at that instant, and everything is
// forgotten within the rule's memory from then on. By real time, in which steps
// back do not count, no more is admitted than ever.
func TestClockStepsBack(t *testing.T) {
	for _, r := range everyRule(t) {
		check(t, 300, func(rng *rand.Rand) bool {
			k, now, elapsed := keep(r), today+rng.Int64N(hour), int64(0)
			var admitted []entry
			for range 60 {
				d := gap(rng, r.memory()/20)
				now += d
				elapsed += d
				c := cost(rng, r.quota)
				if k.take(now, c).Allowed() {
					admitted = append(admitted, entry{elapsed, c})
				}
				if rng.IntN(6) > 0 {
					continue
				}
				left := k.copy().take(now, 0).Remaining
				now -= rng.Int64N(int64(1) << (1 + rng.IntN(60)))
				if n := k.copy().take(now, 0).Remaining; n > left || n < 0 {
					return false
				}
				if r.kind != Calendar && k.copy().take(now, r.quota).Retry > r.memory() {
					return false
				}
				// Whoever is refused comes back when told, and however often he asks.
				again := k.copy()
				again.take(now, 1)
				if then := now + 2*r.memory(); r.kind != Calendar && (!k.copy().fresh(then) && !again.fresh(now+r.memory())) {
					return false
				}
			}
			return r.kind == Calendar || withinBound(r, admitted)
		})
	}
}

// A full bucket is full also when the clock steps back by next to nothing, or
// the bucket becomes smaller, by part of a unit or by many.
func TestNoMoreThanFull(t *testing.T) {
	full := func(quota int64) *key {
		k := keep(made(NewBucket(TokenBucket, 7, second, quota)))
		k.take(today, quota)
		return k
	}
	for back := range int64(200) {
		k := full(3)
		require.Equal(t, Verdict{Retry: 142_857_143, Reset: 428_571_429}, k.take(today-back, 1))
		k.refund(today-back, 1)
		require.Equal(t, Verdict{Remaining: 1, Reset: 285_714_286}, k.take(today-back, 0))
	}
	k, now := full(3), today
	for range 20 { // a fraction of a unit short of full, and back to a fraction beyond
		now += k.copy().take(now, 1).Retry
		require.True(t, k.take(now, 1).Allowed())
		v := k.copy().take(now-1, 0)
		require.Zero(t, v.Remaining)
		require.LessOrEqual(t, v.Retry, int64(142_857_143))
	}
	k = full(10)
	k.rule = full(3).rule
	k.refund(today, 1)
	require.Equal(t, Verdict{Remaining: 1, Reset: 285_714_286}, k.take(today, 0))
	k.refund(today, 2)
	require.True(t, k.fresh(today))
}

// withinBound says if no interval has more than the rule promises at worst.
func withinBound(r *Rule, admitted []entry) bool {
	for i := range admitted {
		total := int64(0)
		for _, e := range admitted[i:] {
			total += e.units
			length := e.at - admitted[i].at
			switch r.kind {
			case TokenBucket, LeakyMeter, LeakyQueue:
				earned := new(big.Int).Mul(big.NewInt(length), big.NewInt(r.rate[0]))
				if total > r.quota+earned.Div(earned, big.NewInt(r.rate[1])).Int64() {
					return false
				}
			case SlidingLog, SlidingBuckets:
				if length < r.window && total > r.quota {
					return false
				}
			default:
				if length < r.window && total > 3*r.quota {
					return false
				}
			}
		}
	}
	return true
}

// Refused after a step back of a year, a client is back in business after one
// refill, though it asked all the time and was never admitted meanwhile.
func TestStepBackIsForgottenByThoseWhoAsk(t *testing.T) {
	for _, r := range everyRule(t) {
		k := keep(r)
		require.True(t, k.take(today, r.quota).Allowed())
		now := today - 365*24*hour
		for range 100 {
			v := k.take(now, r.quota)
			if v.Allowed() {
				break
			}
			require.LessOrEqual(t, v.Retry, r.memory())
			now += max(v.Retry/2, 1)
		}
		require.Less(t, now, today-365*24*hour+r.memory()+1, "%v", r.kind)
		require.Greater(t, now, today-365*24*hour, "%v", r.kind)
	}
}

// After 10⁵ requests over 10⁶ seconds, with the bucket never full but at first,
// all that was earned was spent, to the unit.
func TestNoDrift(t *testing.T) {
	for _, rate := range []struct{ count, period int64 }{
		{3, second},
		{7, second},
		{700_000, second},
		{999_983, second},
		{7, 11 * minute},
	} {
		for _, kind := range []Kind{TokenBucket, LeakyMeter, LeakyQueue} {
			rng := rand.New(rand.NewPCG(uint64(rate.count), 3))
			earned := func(d int64) int64 { // rounded down
				e := new(big.Int).Mul(big.NewInt(d), big.NewInt(rate.count))
				return e.Div(e, big.NewInt(rate.period)).Int64()
			}
			largest := 2*earned(20*second) + 3
			burst := 20 * largest
			k := keep(made(NewBucket(kind, rate.count, rate.period, burst)))
			start := today + rng.Int64N(second)
			now, admitted := start, int64(0)
			for k.take(now, largest).Allowed() {
				admitted += largest
			}
			for range rounds(100_000) {
				now += rng.Int64N(20 * second)
				require.False(t, k.fresh(now), "full: what it earns is lost")
				if c := 1 + rng.Int64N(largest); k.take(now, c).Allowed() {
					admitted += c
				}
			}
			for k.take(now, largest).Allowed() {
				admitted += largest
			}
			due := burst + earned(now-start)
			require.LessOrEqual(t, admitted, due)
			require.Greater(t, admitted, due-largest, "%d per %d", rate.count, rate.period)
			require.Equal(t, due-admitted, k.take(now, 0).Remaining, "%d per %d", rate.count, rate.period)
			require.InDelta(t, 10*rounds(100_000), float64(now-start)/1e9, 1e4)
		}
	}
}
