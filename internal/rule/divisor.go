package rule

import (
	"math"
	"math/bits"
)

// divisor divides by a number that is known long before, with a multiplication,
// which takes a fraction of the time.
type divisor struct{ d, inverse uint64 }

func newDivisor(d int64) divisor {
	inverse := uint64(math.MaxUint64) // for 1, as 2^64 does not fit
	if d > 1 {
		inverse, _ = bits.Div64(1, 0, uint64(d))
	}
	return divisor{uint64(d), inverse}
}

// floor returns x / d for x not negative.
func (v *divisor) floor(x int64) int64 {
	// The inverse is short of 2^64/d by less than 1, so the quotient is short of
	// x/d by less than x/2^64 < 1: by 0 or 1 once rounded down.
	q, _ := bits.Mul64(uint64(x), v.inverse)
	if uint64(x)-q*v.d >= v.d {
		q++
	}
	return int64(q)
}

// ceil returns x / d rounded up, for x ≥ 0 and x + d < 2^63.
func (v *divisor) ceil(x int64) int64 { return v.floor(x + int64(v.d) - 1) }
