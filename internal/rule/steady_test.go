package rule

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A steady bucket decides as any other, and leaves what a larger one of the same
// rate admitted: it refuses exactly as long as that takes to leak.
func TestSteady(t *testing.T) {
	check(t, 2000, func(rng *rand.Rand) bool {
		count, period, quota := 1+rng.Int64N(1<<rng.IntN(31)), 1+rng.Int64N(1<<rng.IntN(62)), 1+rng.Int64N(1<<rng.IntN(31))
		most := int64(1<<62) / (period / gcd(count, period))
		big := 1 + rng.Int64N(most)
		quota = min(quota, big)
		if rng.IntN(4) == 0 {
			big = most
		}
		if rng.IntN(4) == 0 {
			quota = big
		}
		plain := keep(made(NewBucket(LeakyQueue, count, period, quota)))
		steady := keep(made(NewBucket(LeakyQueue, count, period, quota)).Steady())
		now := today
		for range 20 {
			now += gap(rng, plain.rule.Window()/8+1)
			if now > today<<1 {
				break
			}
			c := cost(rng, quota)
			delay := steady.rule.Delay(steady.state, now, c)
			v := steady.take(now, c)
			if v != plain.take(now, c) || v.Allowed() && c > 0 && v.Delay != delay {
				return false
			}
		}

		now = today
		large := keep(made(NewBucket(TokenBucket, count, period, big)).Steady())
		large.take(now, 1+rng.Int64N(big))
		used := large.rule.Used(large.state, nil, now)
		now += rng.Int64N(1 + large.rule.Window()/int64(1+rng.IntN(4)))
		s := large.state
		c := 1 + rng.Int64N(quota)
		next, v := steady.rule.Take(s, now, c)
		switch {
		case v.Remaining < 0 || v.Remaining > quota || v.Retry < 0 || v.Reset < 0:
			return false
		case v.Allowed():
			if want, _ := large.rule.Take(s, now, c); next != want {
				return false
			}
		case next != s:
			return false
		default:
			_, early := steady.rule.Take(s, now+v.Retry-1, c)
			_, then := steady.rule.Take(s, now+v.Retry, c)
			if early.Allowed() || !then.Allowed() {
				return false
			}
		}
		back := steady.rule.Refund(s, today, used-1)
		return large.rule.Used(back, nil, today) == 1 && steady.rule.Refund(s, today, used) == State{}
	})
	assert.Zero(t, made(NewBucket(LeakyQueue, 1, second, 3)).Delay(State{}, today, 4), "never")
	assert.EqualValues(t, 3*second, made(NewBucket(LeakyQueue, 1, second, 3)).Delay(State{}, today, 3))
}
