package rule

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// reference decides by the rules' definitions: from the list of everything ever
// admitted, in rational numbers, for times that only go forward. It has nothing
// in common with the code under test.
type reference struct {
	kind          Kind
	align         Align
	quota, window int64
	cells         int64
	count, period int64
	events        []entry
}

func (f *reference) rule(t *testing.T) *Rule {
	var r *Rule
	var err error
	switch f.kind {
	case FixedWindow:
		r, err = NewFixedWindow(f.quota, f.window, f.align)
	case SlidingCounter:
		r, err = NewSlidingCounter(f.quota, f.window)
	case SlidingLog:
		r, err = NewSlidingLog(f.quota, f.window)
	case SlidingBuckets:
		r, err = NewSlidingBuckets(f.quota, f.window, int(f.cells))
	default:
		r, err = NewBucket(f.kind, f.count, f.period, f.quota)
	}
	require.NoError(t, err)
	return r
}

func rat(a, b int64) *big.Rat { return big.NewRat(a, b) }

func sum(xs ...*big.Rat) *big.Rat {
	s := new(big.Rat)
	for _, x := range xs {
		s.Add(s, x)
	}
	return s
}

// used returns what weighs on the quota at an instant, and if it weighs nothing.
func (f *reference) used(now int64) (used *big.Rat, fresh bool) {
	used = new(big.Rat)
	switch f.kind {
	case FixedWindow:
		start := now / f.window * f.window
		if f.align == ToFirst {
			start = -f.window
			for _, e := range f.events {
				if e.at >= start+f.window {
					start = e.at
				}
			}
			if now >= start+f.window {
				start = now
			}
		}
		fresh = true
		for _, e := range f.events {
			if e.at >= start && e.at < start+f.window {
				used.Add(used, rat(e.units, 1))
				fresh = false
			}
		}
		return used, fresh
	case SlidingLog:
		for _, e := range f.events {
			if e.at > now-f.window {
				used.Add(used, rat(e.units, 1))
			}
		}
	case SlidingBuckets:
		cell := f.window / f.cells
		for _, e := range f.events {
			if (e.at/cell+1)*cell > now-f.window {
				used.Add(used, rat(e.units, 1))
			}
		}
	case SlidingCounter:
		k, left := now/f.window, f.window-now%f.window
		for _, e := range f.events {
			switch e.at / f.window {
			case k:
				used.Add(used, rat(e.units, 1))
			case k - 1:
				used.Add(used, new(big.Rat).Mul(rat(e.units, f.window), rat(left, 1)))
			}
		}
	case LeakyQueue:
		// Unit i of an event leaves i intervals after the event's start: when the
		// one before it has left, or on arrival.
		leaves := new(big.Rat)
		interval := rat(f.period, f.count)
		for _, e := range f.events {
			start := leaves
			if at := rat(e.at, 1); at.Cmp(start) > 0 {
				start = at
			}
			leaves = sum(start, new(big.Rat).Mul(interval, rat(e.units, 1)))
			if leaves.Cmp(rat(now, 1)) > 0 {
				gone := new(big.Rat).Quo(new(big.Rat).Sub(rat(now, 1), start), interval)
				whole := new(big.Int).Div(gone.Num(), gone.Denom()) // rounds down
				if whole.Sign() < 0 {
					whole.SetInt64(0)
				}
				used.Add(used, new(big.Rat).Sub(rat(e.units, 1), new(big.Rat).SetInt(whole)))
			}
		}
	default:
		full := rat(f.quota, 1)
		balance, last := full, int64(0)
		refill := func(now int64) {
			balance = sum(balance, new(big.Rat).Mul(rat(now-last, 1), rat(f.count, f.period)))
			if balance.Cmp(full) > 0 {
				balance = full
			}
			last = now
		}
		for _, e := range f.events {
			refill(e.at)
			balance = new(big.Rat).Sub(balance, rat(e.units, 1))
		}
		refill(now)
		used.Sub(full, balance)
	}
	return used, used.Sign() == 0
}

// admits says if cost units would pass.
func (f *reference) admits(now, cost int64) bool {
	used, _ := f.used(now)
	if f.kind == SlidingCounter { // the estimate is below what the last unit leaves
		return used.Cmp(rat(f.quota-cost+1, 1)) < 0
	}
	return sum(used, rat(cost, 1)).Cmp(rat(f.quota, 1)) <= 0
}

// check takes cost from a key and holds the verdict against the definitions.
func (f *reference) check(t *testing.T, k *key, now, cost int64) {
	ask := max(cost, 1)
	admits := f.admits(now, ask)
	v := k.take(now, cost)
	say := []any{"%+v at %d cost %d: %+v", *f, now, cost, v}
	require.Equal(t, admits, v.Allowed(), say...)
	if admits && cost > 0 {
		f.events = append(f.events, entry{now, cost})
	}
	require.GreaterOrEqual(t, v.Remaining, int64(0), say...)
	require.LessOrEqual(t, v.Remaining, f.quota, say...)
	if v.Remaining > 0 {
		require.True(t, f.admits(now, v.Remaining), say...)
	}
	require.False(t, f.admits(now, v.Remaining+1), say...)
	switch {
	case admits:
	case ask > f.quota:
		require.EqualValues(t, Never, v.Retry, say...)
	default:
		require.Positive(t, v.Retry, say...)
		require.True(t, f.admits(now+v.Retry, ask), say...)
		require.False(t, f.admits(now+v.Retry-1, ask), say...)
	}
	_, fresh := f.used(now + v.Reset)
	require.True(t, fresh, say...)
	if v.Reset > 0 {
		_, fresh = f.used(now + v.Reset - 1)
		require.False(t, fresh, say...)
	}
	require.Equal(t, v.Reset == 0, k.fresh(now), say...)
	delay := int64(0)
	if f.kind == LeakyQueue && admits && cost > 0 {
		delay = v.Reset // the last in the queue leaves it empty
	}
	require.Equal(t, delay, v.Delay, say...)
}

// config draws a rule. Numbers are of all magnitudes, as trouble is where they
// do not divide each other and where products are large.
func config(rng *rand.Rand) *reference {
	upTo := func(bits int) int64 { return 1 + rng.Int64N(1<<(1+rng.IntN(bits))) }
	f := &reference{kind: Kind(rng.IntN(int(SlidingBuckets) + 1)), align: Align(rng.IntN(2)), quota: upTo(8)}
	if f.kind == Calendar {
		f.kind = LeakyQueue
	}
	if rng.IntN(4) == 0 {
		f.quota = upTo(31)
	}
	switch f.kind {
	case TokenBucket, LeakyMeter, LeakyQueue:
		f.count, f.period = upTo(30), upTo(30)
		if f.quota < 1<<9 {
			f.period = upTo(50)
		}
	case SlidingLog:
		f.quota = min(f.quota, MaxEntries)
		f.window = upTo(50)
	case SlidingBuckets:
		f.cells = upTo(5)
		f.window = upTo(45) * f.cells
	default:
		f.window = upTo(50)
	}
	return f
}

// span is about how long the rule remembers.
func (f *reference) span() int64 {
	if f.kind > LeakyQueue {
		return f.window
	}
	s := new(big.Int).Mul(big.NewInt(f.quota), big.NewInt(f.period))
	return s.Div(s, big.NewInt(f.count)).Int64() + 1
}

// story runs a key through requests of random times and costs.
func story(t *testing.T, seed uint64, steps int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	f := config(rng)
	k := keep(f.rule(t))
	now := int64(1_790_000_000_000_000_000) + rng.Int64N(1<<50)
	for range steps {
		now += gap(rng, f.span())
		f.check(t, k, now, cost(rng, f.quota))
		if v := k.copy().take(now, 1); v.Retry > 1 && v.Retry != Never && rng.IntN(3) == 0 {
			now += v.Retry - rng.Int64N(2) // the instant itself, or the one before
		}
	}
}

func gap(rng *rand.Rand, span int64) int64 {
	switch rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return rng.Int64N(2*span) + 1
	case 3:
		return span
	default:
		return rng.Int64N(span/int64(1+rng.IntN(20))+1) + 1
	}
}

func cost(rng *rand.Rand, quota int64) int64 {
	switch rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return quota + rng.Int64N(2)
	case 2:
		return rng.Int64N(quota + 2)
	case 3, 4:
		return rng.Int64N(quota/8+1) + 1
	default:
		return 1
	}
}

func TestReference(t *testing.T) {
	for seed := range uint64(rounds(100)) {
		story(t, seed, 40)
	}
}

func FuzzReference(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(1_000_000+seed, uint8(40))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) { story(t, seed, int(steps)%50) })
}
