package rule

import (
	"fmt"
	"time"
)

// maxSpan bounds how far ahead of the clock a state may lie, 146 years, and the
// clock itself, the year 2116: the sum fits.
const maxSpan = 1 << 62

// bucket has the numbers of the three rules that are one: the token bucket, the
// leaky bucket as a meter, its mirror image, and the leaky bucket as a queue,
// the meter that tells each request when the last of its units leaks.
//
// A unit weighs period and count leak out every nanosecond, both reduced by
// their greatest common divisor. State.A is the instant from which the bucket
// is empty of use, and State.B, in [0, count), is by how much it overshoots:
//
//	level(t) = count·(A−t) − B
//
// which is exact at every rate, with the numbers of one bucket alone.
type bucket struct {
	count int64   // leaks per nanosecond
	unit  divisor // by period, the weight of a unit
	step  int64   // period / count: how far a unit moves A,
	rest  int64   // period % count: and B
	leak  divisor // by count
	span  int64   // the state of a full bucket: A − t
	over  int64   // and B

	steady bool // the clock never steps back
}

// NewBucket returns a TokenBucket, LeakyMeter or LeakyQueue that holds quota
// units and gains (or leaks) count per period, in nanoseconds.
func NewBucket(kind Kind, count, period, quota int64) (*Rule, error) {
	if kind > LeakyQueue {
		return nil, fmt.Errorf("%v is not a bucket", kind)
	}
	what := "burst"
	if kind != TokenBucket {
		what = "capacity"
	}
	switch {
	case count < 1:
		return nil, fmt.Errorf("rate of %d units is not positive", count)
	case period < 1:
		return nil, fmt.Errorf("rate per %v is not positive", time.Duration(period))
	case quota < 1:
		return nil, fmt.Errorf("%s %d is not positive: it could never admit anything", what, quota)
	}
	g := gcd(count, period)
	n, p := count/g, period/g
	if n > maxSpan || p > maxSpan {
		return nil, fmt.Errorf("a rate of %d per %v cannot be exact: neither may exceed %d, or %v", count, time.Duration(period), int64(maxSpan), time.Duration(maxSpan))
	}
	if quota > maxSpan/p {
		return nil, fmt.Errorf("%s %d at %d per %v cannot be exact: it may be %d at most", what, quota, count, time.Duration(period), maxSpan/p)
	}
	r := &Rule{kind: kind, quota: quota, rate: [2]int64{count, period}}
	span := (quota*p + n - 1) / n
	r.bucket = bucket{
		count: n, unit: newDivisor(p), leak: newDivisor(n),
		step: p / n, rest: p % n,
		span: span, over: n*span - quota*p,
	}
	return r, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (r *Rule) takeBucket(s State, now, cost int64) (State, Verdict) {
	b := &r.bucket
	s = b.within(s, now)
	at := s
	if at.A <= now {
		at = State{A: now}
	}
	ask := max(cost, 1)
	if ask > r.quota {
		return s, Verdict{Remaining: r.left(at, now), Retry: Never, Reset: at.A - now}
	}
	full := now + b.span
	next := b.add(State{at.A - full, at.B}, ask)
	retry := next.A
	if next.B < b.over {
		retry++
	}
	if retry > 0 {
		return s, Verdict{Remaining: r.left(at, now), Retry: retry, Reset: at.A - now}
	}
	if cost <= 0 {
		return s, Verdict{Remaining: r.left(at, now), Reset: at.A - now}
	}
	next.A += full
	v := Verdict{Remaining: r.left(next, now), Reset: next.A - now}
	if r.kind == LeakyQueue {
		v.Delay = v.Reset
	}
	return next, v
}

// within returns s, but not above full, as it may be when the clock has stepped
// back. With a clock that does not, it is so by what a larger bucket admitted.
func (b *bucket) within(s State, now int64) State {
	if b.steady {
		return s
	}
	if ahead := s.A - now; ahead > b.span || ahead == b.span && s.B < b.over {
		return State{now + b.span, b.over}
	}
	return s
}

// add puts cost units, at most a full bucket, on top of at.
func (b *bucket) add(at State, cost int64) State {
	at.A += cost * b.step
	at.B -= cost * b.rest
	if at.B < 0 {
		carry := int64(1)
		if -at.B > b.count {
			carry = b.leak.ceil(-at.B)
		}
		at.A += carry
		at.B += carry * b.count
	}
	return at
}

// Steady returns r for a clock that never steps back. A State that lies further
// ahead than this bucket reaches is then known to be of a larger one of the same
// rate, see Reads: it is left as it is, and refused until it has leaked.
func (r *Rule) Steady() *Rule {
	n := *r
	n.bucket.steady = true
	return &n
}

// Delay returns how long a LeakyQueue would keep cost units that came now, if
// there were place for them; 0 if there never is.
func (r *Rule) Delay(s State, now, cost int64) int64 {
	if cost > r.quota {
		return 0
	}
	if s = r.bucket.within(s, now); s.A <= now {
		s = State{A: now}
	}
	return r.bucket.add(State{s.A - now, s.B}, cost).A
}

// left returns the whole units that fit on top of at, which is not before now.
func (r *Rule) left(at State, now int64) int64 {
	return max(r.quota-r.used(at, now), 0)
}

// used returns the units in use, a part of one counting as one.
func (r *Rule) used(at State, now int64) int64 {
	return r.bucket.unit.ceil(r.bucket.count*(at.A-now) - at.B)
}

func (r *Rule) refundBucket(s State, now, cost int64) State {
	b := &r.bucket
	s = b.within(s, now)
	if cost >= r.used(s, now) {
		return State{}
	}
	s.A -= cost * b.step
	s.B += cost * b.rest
	if s.B >= b.count {
		carry := b.leak.floor(s.B)
		s.A -= carry
		s.B -= carry * b.count
	}
	if s.A <= now {
		return State{}
	}
	return s
}
