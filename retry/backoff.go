package retry

import (
	"math/bits"
	"time"
)

// Backoff returns the wait before retry n, before jitter: min(Cap,
// Base·2^(n−1)). n = 1 is the first retry; less counts as 1.
func (p *Policy) Backoff(n int) time.Duration {
	base, ceiling := p.base(), p.ceiling()
	shift := max(n, 1) - 1
	if base >= ceiling || shift > bits.LeadingZeros64(uint64(base))-1 {
		// The shift would leave 63 bits, so the ceiling is nearer, if it is
		// anything but zero that is shifted.
		if base == 0 {
			return 0
		}
		return ceiling
	}
	return min(base<<shift, ceiling)
}

// Jittered draws the wait before retry n, as Jitter says. n = 1 is the first
// retry; less counts as 1. last is the wait drawn before it, zero if there was
// none, which only DecorrelatedJitter looks at. random gives numbers in [0, 1).
// What a provider asked for is not in it.
func (p *Policy) Jittered(n int, last time.Duration, random func() float64) time.Duration {
	b := p.Backoff(n)
	switch p.Jitter {
	case NoJitter:
		return b
	case EqualJitter:
		return b - share(b/2, random)
	case DecorrelatedJitter:
		base := min(p.base(), p.ceiling())
		last = max(last, base)
		top := p.ceiling()
		if last < forever/3 {
			top = min(top, 3*last)
		}
		return base + share(top-base, random)
	}
	return share(b, random)
}

// share is a random part of d, from 0 to d.
func share(d time.Duration, random func() float64) time.Duration {
	return min(time.Duration(random()*float64(d)), d)
}

// later is a + b without overflow, for a and b that are not negative.
func later(a, b time.Duration) time.Duration {
	if a > forever-b {
		return forever
	}
	return a + b
}
