package rule

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func (k *key) carry(r *Rule, now int64) *key {
	s, h := r.Carry(k.rule, k.state, k.long, now)
	if h == nil {
		h = &History{}
	}
	return &key{r, s, h}
}

// 4 of 10 are used. What is left follows the new quota, whichever rule it is of.
func TestCarryKeepsUnitsInUse(t *testing.T) {
	of := func(quota int64) []*Rule {
		return []*Rule{
			made(NewBucket(TokenBucket, quota, minute, quota)),
			made(NewBucket(LeakyMeter, 1, minute, quota)),
			made(NewBucket(LeakyQueue, 3, minute, quota)),
			made(NewFixedWindow(quota, minute, ToClock)),
			made(NewFixedWindow(quota, minute, ToFirst)),
			made(NewFixedWindow(quota, hour, ToFirst)),
			made(NewSlidingCounter(quota, minute)),
			made(NewSlidingCounter(quota, hour)),
			made(NewSlidingLog(quota, minute)),
			made(NewSlidingBuckets(quota, minute, 6)),
			made(NewSlidingBuckets(quota, hour, 5)),
			made(NewCalendar(quota, false, time.UTC)),
			made(NewCalendar(quota, true, time.UTC)),
		}
	}
	for _, old := range of(10) {
		for i := range of(1) {
			left := func(quota int64) (v Verdict) {
				k := keep(old)
				k.take(today, 3)
				k.take(today, 1)
				return k.carry(of(quota)[i], today).take(today, 0)
			}
			say := []any{"%v to %v", old.kind, of(1)[i].kind}
			assert.EqualValues(t, 16, left(20).Remaining, say...)
			assert.EqualValues(t, 6, left(10).Remaining, say...)
			assert.EqualValues(t, 0, left(3).Remaining, say...)
			assert.EqualValues(t, 0, left(1).Remaining, say...)
			assert.Positive(t, left(20).Reset, say...)

			fresh := keep(old).carry(of(5)[i], today)
			assert.Equal(t, Verdict{Remaining: 5}, fresh.take(today, 0), say...)
			k := keep(old)
			k.take(today, 4)
			later := today + 62*24*hour
			assert.Equal(t, Verdict{Remaining: 5}, k.carry(of(5)[i], later).take(later, 0), say...)
		}
	}
}

// Refused at a limit of 1, which is then raised to 10: the next is admitted.
func TestCarryRaisedAfterRefusal(t *testing.T) {
	k := keep(made(NewFixedWindow(1, hour, ToFirst)))
	k.take(today, 1)
	assert.False(t, k.take(today+1, 1).Allowed())
	k = k.carry(made(NewFixedWindow(10, hour, ToFirst)), today+2)
	assert.Equal(t, Verdict{Remaining: 8, Reset: hour - 2}, k.take(today+2, 1), "the window goes on")
	k = k.carry(made(NewFixedWindow(1, hour, ToFirst)), today+3)
	assert.Equal(t, Verdict{Retry: hour - 3, Reset: hour - 3}, k.take(today+3, 1))
	k = k.carry(made(NewFixedWindow(3, hour, ToFirst)), today+4)
	assert.EqualValues(t, 1, k.take(today+4, 0).Remaining, "lowered and raised: nothing is lost")
}

// Of a bucket, parts of a unit are kept as well; a refill goes on at the new rate.
func TestCarryBucket(t *testing.T) {
	k := keep(made(NewBucket(TokenBucket, 1, second, 10)))
	k.take(today, 4)
	now := today + second/4 // 3.75 in use
	k = k.carry(made(NewBucket(TokenBucket, 5, second, 20)), now)
	assert.Equal(t, Verdict{Remaining: 16, Reset: second * 3 / 4}, k.take(now, 0))
	k = k.carry(made(NewBucket(LeakyMeter, 1, 3*second, 2)), now)
	assert.Equal(t, Verdict{Retry: 3 * second, Reset: 6 * second}, k.take(now, 1), "full, not beyond")

	full := keep(made(NewBucket(TokenBucket, 1, second, 3)))
	full.take(today, 3)
	now = today - hour // no more than full, though the clock has stepped back
	assert.EqualValues(t, 7, full.carry(made(NewBucket(TokenBucket, 2, second, 10)), now).take(now, 0).Remaining)

	check(t, 3000, func(rng *rand.Rand) bool {
		draw := func() *Rule {
			return made(NewBucket(Kind(rng.IntN(3)), 1+rng.Int64N(1<<20), 1+rng.Int64N(1<<(1+rng.IntN(30))), 1+rng.Int64N(1<<(1+rng.IntN(31)))))
		}
		k, now, r := keep(draw()), today, draw()
		for range 5 {
			k.take(now, 1+rng.Int64N(k.rule.quota))
			now += rng.Int64N(k.rule.memory() + 1)
		}
		used := min(k.rule.Used(k.state, nil, now), r.quota)
		n := k.carry(r, now)
		return r.Used(n.state, nil, now) == used && n.state.A-now <= r.bucket.span && n.state.B >= 0 && n.state.B < r.bucket.count
	})
}

func TestCarryHistory(t *testing.T) {
	k := keep(made(NewSlidingLog(10, minute)))
	for i := range int64(5) {
		k.take(today+i*10*second, 1)
	}
	now := today + 45*second
	short := k.copy().carry(made(NewSlidingLog(4, 30*second)), now)
	assert.Equal(t, Verdict{Remaining: 1, Reset: 25 * second}, short.take(now, 0), "those of the last 30 s")
	cells := k.copy().carry(made(NewSlidingBuckets(6, minute, 2)), now)
	assert.EqualValues(t, 1, cells.take(now, 0).Remaining)
	cells.take(now, 1)
	back := cells.carry(made(NewSlidingLog(6, minute)), now)
	assert.Equal(t, Verdict{Reset: minute, Retry: minute}, func() Verdict {
		v := back.take(now, 6)
		return Verdict{Reset: v.Reset, Retry: v.Retry}
	}())
}

func TestReads(t *testing.T) {
	// Each rule reads its own and no other's, whatever the quota.
	of := func(quota int64) []*Rule {
		return []*Rule{
			made(NewBucket(TokenBucket, 7, 11*second, quota)),
			made(NewBucket(TokenBucket, 7, 12*second, quota)),
			made(NewBucket(LeakyMeter, 8, 11*second, quota)),
			made(NewFixedWindow(quota, 7*second, ToClock)),
			made(NewFixedWindow(quota, 8*second, ToClock)),
			made(NewFixedWindow(quota, 7*second, ToFirst)),
			made(NewFixedWindow(quota, 7*second, ToClockPerKey)),
			made(NewSlidingCounter(quota, 7*second)),
			made(NewCalendar(quota, false, newYork(t))),
			made(NewCalendar(quota, true, newYork(t))),
			made(NewCalendar(quota, false, time.UTC)),
			made(NewCalendar(quota, false, time.FixedZone("here", 3600))),
			made(NewCalendar(quota, false, time.FixedZone("here", 7200))),
			made(NewSlidingLog(quota, 7*second)),
			made(NewSlidingBuckets(quota, 12*second, 3)),
			made(NewSlidingBuckets(quota, 12*second, 4)),
		}
	}
	for i, a := range of(10) {
		for j, b := range of(10) {
			assert.Equal(t, i == j, a.Reads(b), "%d %d", i, j)
		}
		for j, b := range of(5) {
			assert.Equal(t, i == j && !a.Long(), a.Reads(b), "%d %d", i, j)
			if a.Reads(b) { // more in use than the new quota
				k := keep(a)
				k.take(today, 10)
				k.rule = b
				v := k.take(today, 1)
				assert.Zero(t, v.Remaining)
				assert.Positive(t, v.Retry)
				if a.kind <= LeakyQueue {
					assert.LessOrEqual(t, v.Reset, b.memory())
				}
				k.refund(today, 1)
				k.take(today, 0)
				k.refund(today, 9)
				assert.True(t, k.take(today, 5).Allowed())
			}
		}
	}
	bucket := made(NewBucket(TokenBucket, 10, second, 5))
	assert.True(t, bucket.Reads(made(NewBucket(TokenBucket, 600, minute, 5))), "one rate, written in two ways")
	assert.True(t, bucket.Reads(made(NewBucket(LeakyQueue, 10, second, 5))), "a meter with a Delay")
}
