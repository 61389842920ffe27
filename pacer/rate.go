package pacer

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Rate is Count units in every Per. The zero Rate, and any whose Count or Per
// is not positive, is no rate at all: units leave as they come.
type Rate struct {
	Count int64
	Per   time.Duration
}

// Per returns the rate of count units in every d: Per(100, time.Second).
func Per(count int64, d time.Duration) Rate { return Rate{count, d} }

// Within returns the largest rate that, with a bucket of burst units, lets no
// more than limit units pass in any window: the one with
// burst + rate × window = limit. A provider that counts 100 calls in 10 s and a
// burst of 40 leave 60 in 10 s, 6 a second. The arithmetic is in integers.
//
// It is an error if nothing is left: limit must be at least 2, window positive,
// and burst from 1 to limit − 1.
func Within(limit int64, window time.Duration, burst int64) (Rate, error) {
	switch {
	case limit < 2:
		return Rate{}, fmt.Errorf("pacer: Within: limit is %d, must be at least 2", limit)
	case window <= 0:
		return Rate{}, fmt.Errorf("pacer: Within: window is %v, must be positive", window)
	case burst < 1 || burst >= limit:
		return Rate{}, fmt.Errorf("pacer: Within: burst is %d, must be from 1 to %d, one less than the limit", burst, limit-1)
	}
	left := limit - burst
	if n, rest := mulDiv(left, int64(time.Second), int64(window)); rest == 0 && n < math.MaxInt64 {
		return Rate{n, time.Second}, nil
	}
	return Rate{left, window}, nil
}

// Shape is how a pacer treats idle time.
type Shape int

const (
	// TokenBucket lets idle time earn a burst: units leave at once while there
	// are tokens, which come back at Rate, up to Burst.
	TokenBucket Shape = iota
	// LeakyBucket spaces units evenly: the first after idle time leaves at
	// once, and after n units the next leave n × Per/Count later, rounded up to
	// the nanosecond. Idle time earns nothing, and Burst has no meaning.
	LeakyBucket
)

// none tells whether r sets no pace.
func (r Rate) none() bool { return r.Count <= 0 || r.Per <= 0 }

// perSecond is the rate as x/time/rate counts it.
func (r Rate) perSecond() float64 { return float64(r.Count) * 1e9 / float64(r.Per) }

// span is the time that n units take, rounded up.
func (r Rate) span(n int64) int64 {
	d, rest := mulDiv(n, int64(r.Per), r.Count)
	if rest > 0 {
		return later(d, 1)
	}
	return d
}

// give is how many whole units d earns.
func (r Rate) give(d time.Duration) int64 {
	n, _ := mulDiv(r.Count, int64(d), int64(r.Per))
	return n
}

// mulDiv returns a × b / c and its remainder in 128 bits, at most the largest
// int64. None may be negative, and c not zero.
func mulDiv(a, b, c int64) (quo, rem int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64)), int64(r)
}

// never is an instant that does not come.
const never = math.MaxInt64

// later is t + d, at most never. d is not negative.
func later(t, d int64) int64 {
	if t > never-d {
		return never
	}
	return t + d
}
