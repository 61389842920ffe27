package pacer

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// timerSlack is what a default Burst makes up for: an idle Go process rounds a
// timer up to a millisecond, and a bucket that holds less than what comes in
// meanwhile loses it.
const timerSlack = 5 * time.Millisecond

// dust is how many nanoseconds of a token may be missing: what float64
// arithmetic loses, a picosecond. [rate.Limiter.AllowN] by itself rounds down to whole
// nanoseconds, and would grant up to one early.
const dust = 1e-3

// bucket is one key's pace. It is a pure rule: now is an instant in
// nanoseconds on the pacer's clock, which never steps back.
type bucket struct {
	pace   Pace
	burst  int64         // of pace, or what stands for zero
	most   int64         // the largest n that left
	tokens *rate.Limiter // TokenBucket
	wide   bool          // tokens gathers without bound, see widen
	used   bool          // something left
	last   int64         // the latest departure, or other change
	lastN  int64         // LeakyBucket: the units that left then
	level  float64       // of tokens...
	at     int64         // ...at this instant, if level is not negative
}

// set gives the bucket a pace, keeping what was used. It starts full.
func (b *bucket) set(p Pace, now int64) {
	if b.pace.Rate.none() {
		b.used, b.tokens = false, nil
	}
	b.pace, b.level = p, -1
	b.burst = p.Burst
	if p.Rate.none() {
		return
	}
	if p.Burst <= 0 {
		b.burst = max(1, p.Rate.give(timerSlack))
	}
	if p.Shape == LeakyBucket {
		return
	}
	limit := rate.Limit(p.Rate.perSecond())
	if b.tokens == nil {
		b.tokens = rate.NewLimiter(limit, b.brim())
		return
	}
	b.last = max(b.last, now)
	b.tokens.SetLimitAt(instant(b.last), limit)
	b.tokens.SetBurstAt(instant(b.last), b.brim())
}

// brim is how many tokens the limiter may gather.
func (b *bucket) brim() int {
	if b.wide {
		return math.MaxInt
	}
	return int(min(b.burst, math.MaxInt))
}

// widen lets the limiter gather without bound, once a call asks for more than
// the default Burst; take then throws away what a call of that size may not
// use. So large calls find what idle time earned, and small ones make no burst
// of it.
func (b *bucket) widen() {
	b.wide, b.level = true, -1
	if !b.used {
		b.tokens = rate.NewLimiter(b.tokens.Limit(), math.MaxInt)
		return
	}
	b.tokens.SetBurstAt(instant(b.last), math.MaxInt)
}

// tokensAt is the limiter's level. It is asked for twice, and costs a lock.
func (b *bucket) tokensAt(now int64) float64 {
	if b.level < 0 || b.at != now {
		b.level, b.at = b.tokens.TokensAt(instant(now)), now
	}
	return b.level
}

// fits tells whether n units can ever leave at once.
func (b *bucket) fits(n int64) bool {
	if b.pace.Rate.none() || b.pace.Shape == LeakyBucket {
		return true
	}
	return n <= math.MaxInt && (b.pace.Burst <= 0 || n <= b.burst)
}

// soonest returns the first instant from now on at which n units may leave
// after ahead others, if at most most units are there now.
func (b *bucket) soonest(now, ahead, n int64, most float64) int64 {
	if b.pace.Rate.none() {
		return now
	}
	if b.pace.Shape == LeakyBucket {
		if b.used {
			now = max(now, later(b.last, b.pace.Rate.span(b.lastN)))
		}
		return later(now, b.pace.Rate.span(ahead))
	}
	if n > b.burst && !b.wide && b.pace.Burst <= 0 {
		b.widen()
	}
	most = min(most, float64(max(b.burst, n)))
	lack := float64(ahead) + float64(n) - min(most, b.tokensAt(now))
	return after(now, lack/b.pace.Rate.perSecond()*1e9)
}

// take lets n units leave now, which soonest allowed.
func (b *bucket) take(now, n int64) {
	if b.pace.Rate.none() {
		return
	}
	b.last = max(b.last, now)
	b.most = max(b.most, n)
	b.used = true
	if b.pace.Shape == LeakyBucket {
		b.lastN = n
		return
	}
	if most := max(b.burst, n); b.wide && b.tokensAt(b.last) > float64(most) {
		b.keep(b.last, most)
	}
	b.tokens.AllowN(instant(b.last), int(n))
	b.level = -1
}

// keep throws away what is over most units at now.
func (b *bucket) keep(now, most int64) {
	if b.tokens == nil {
		return
	}
	b.last = max(b.last, now)
	at := instant(b.last)
	b.tokens.SetBurstAt(at, int(min(most, math.MaxInt)))
	b.tokens.AllowN(at, 0)
	b.tokens.SetBurstAt(at, b.brim())
	b.level = -1
}

// drain lets n units leave now that a store allowed, with or without tokens
// here: should the store fail, what is here is less rather than more.
func (b *bucket) drain(now, n int64) {
	if b.pace.Rate.none() || b.soonest(now, 0, n, never) <= now {
		b.take(now, n)
		return
	}
	b.keep(now, 0)
}

// fresh returns the first instant from now on at which the bucket is as if it
// had never been used, if at most most units are there now.
func (b *bucket) fresh(now int64, most float64) int64 {
	return b.soonest(now, 0, max(b.burst, b.most), most)
}

// instant is a point of the pacer's clock as x/time/rate wants it. Where it
// starts is no matter.
func instant(now int64) time.Time { return time.Unix(0, now) }

// after is now and so many nanoseconds, rounded up, but for dust.
func after(now int64, ns float64) int64 {
	switch {
	case ns <= dust:
		return now
	case ns >= never/2:
		return never
	}
	return later(now, int64(math.Ceil(ns-dust)))
}
