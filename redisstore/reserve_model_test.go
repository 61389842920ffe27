package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/pacer"
)

// paceModel is the pace as arithmetic without rounding.
type paceModel struct {
	pacer.Pace
	burst int64
	paid  *big.Rat // microseconds; nil: new
	most  int64
	last  int64
	units int64
}

func (m *paceModel) span(n int64) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(m.Rate.Per))), new(big.Int).Mul(big.NewInt(m.Rate.Count), big.NewInt(1000)))
}

func ceilOf(r *big.Rat) int64 {
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return q.Int64() + 1
	}
	return q.Int64()
}

// grant returns the instant of n units, and takes them if it is early enough.
func (m *paceModel) grant(now, n, most int64) (at int64) {
	if m.Shape == pacer.LeakyBucket {
		at = max(now, m.last+ceilOf(m.span(m.units)))
		if n > 0 && at-now <= most {
			m.last, m.units = at, n
		}
		return at
	}
	brim := max(m.burst, n)
	rat := func(i int64) *big.Rat { return new(big.Rat).SetInt64(i) }
	full := max(m.burst, m.most)
	if m.paid == nil || new(big.Rat).Add(m.paid, m.span(full)).Cmp(rat(now)) <= 0 {
		m.paid, m.most = new(big.Rat).Sub(rat(now), m.span(brim)), 0
	}
	at = max(now, ceilOf(new(big.Rat).Add(m.paid, m.span(n))))
	if n == 0 || at-now > most {
		return at
	}
	if low := new(big.Rat).Sub(rat(at), m.span(brim)); low.Cmp(m.paid) > 0 {
		m.paid = low
	}
	m.paid.Add(m.paid, m.span(n))
	m.most = max(m.most, n)
	return at
}

// The script does what arithmetic without rounding does.
func TestReserveAgreesWithArithmetic(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		for seed := range uint64(times(60)) {
			rng := rand.New(rand.NewPCG(seed, 8))
			upTo := func(bits int) int64 { return 1 + rng.Int64N(1<<(1+rng.IntN(bits))) }
			m := &paceModel{}
			for {
				m.Pace = pacer.Pace{Rate: pacer.Rate{Count: upTo(24), Per: time.Duration(upTo(40))}, Burst: rng.Int64N(3) * upTo(10), Shape: pacer.Shape(rng.IntN(2))}
				if _, err := paceArgs(m.Pace, 3000); err == nil || m.Burst > 0 {
					if _, err := paceArgs(m.Pace, 0); err == nil {
						break
					}
				}
			}
			m.burst = m.Burst
			if m.burst == 0 {
				m.burst = max(1, given(m.Rate, 5*ms))
			}
			start := int64(1_800_000_000_000_000) + rng.Int64N(1e12)
			*now = start
			for step := range 50 {
				n := rng.Int64N(min(m.burst+1, 3000))
				if rng.IntN(4) == 0 && (m.Burst == 0 || m.Shape == pacer.LeakyBucket) {
					n = rng.Int64N(3000)
				}
				most := rng.Int64N(2) * int64(time.Hour/time.Microsecond)
				g, err := s.Reserve(t.Context(), fmt.Sprint(seed), m.Pace, n, time.Duration(most)*time.Microsecond)
				at := m.grant(*now, n, most)
				var late *pacer.WaitError
				if errors.As(err, &late) {
					require.Greater(t, late.Wait, time.Duration(most)*time.Microsecond)
					g.Wait, err = late.Wait, nil
				}
				require.NoError(t, err)
				require.Equal(t, at-*now, g.Wait.Microseconds(), "seed %d, step %d: %+v, %d units", seed, step, m.Pace, n)
				*now += rng.Int64N(1 + ceilOf(m.span(1+n))*rng.Int64N(3))
			}
		}
	})
}

// granted are instants and their units.
type granted []struct{ at, n int64 }

// over finds an interval in which more left than the pace allows.
func (g granted) over(p pacer.Pace, burst int64) error {
	slices.SortFunc(g, func(a, b struct{ at, n int64 }) int { return int(a.at - b.at) })
	for i := range g {
		var sum int64
		for j := i; j < len(g); j++ {
			sum += g[j].n
			t := g[j].at - g[i].at
			if (sum-burst)*int64(p.Rate.Per) > p.Rate.Count*t*1000 {
				return fmt.Errorf("%d units in %d µs", sum, t)
			}
		}
	}
	return nil
}

// Whatever is cancelled and held, and wherever the clock goes, no more leaves
// than the pace allows. With half of the seeds nothing is cancelled; with the
// others the clock steps back by enough to be noticed, for a place that was given
// back is early by as much as it was not.
func TestReserveNeverGrantsMore(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		clock := clocked(s)
		given, left := 0, 0
		for seed := range uint64(times(40)) {
			rng := rand.New(rand.NewPCG(seed, 9))
			key := fmt.Sprint(seed)
			p := pacer.Pace{Rate: pacer.Rate{Count: 1 + rng.Int64N(50), Per: time.Duration(1+rng.Int64N(1e6)) * time.Microsecond}, Burst: 1 + rng.Int64N(10)*rng.Int64N(2)}
			even := rng.IntN(3) == 0
			if even {
				p.Shape, p.Burst = pacer.LeakyBucket, 1
			}
			type out struct {
				pacer.Grant
				at, n int64
			}
			var all []out
			now, behind, held, seen := int64(1_800_000_000_000_000), int64(0), int64(0), int64(0)
			cancels := seed%2 == 0
			for range 120 {
				*clock = now - behind
				unit := int64(p.Rate.Per)/p.Rate.Count/1000 + 1
				switch rng.IntN(12) {
				case 0:
					behind += 1 + rng.Int64N(20*unit)
					if cancels && seen > 0 {
						behind += now - seen
						*clock = now - behind
						_, err := s.Reserve(t.Context(), key, p, 0, time.Hour)
						require.NoError(t, err)
						seen = now
					}
				case 1:
					if rng.IntN(4) == 0 {
						d := rng.Int64N(10*unit) + 1
						require.NoError(t, s.Hold(t.Context(), key, time.Duration(d)*time.Microsecond))
						held = max(held, now+d)
						seen = now
					}
				case 2, 3, 4:
					if len(all) > 0 && cancels {
						i := rng.IntN(len(all))
						if o := all[i]; o.at >= now {
							require.NoError(t, o.Cancel(t.Context()))
							require.NoError(t, o.Cancel(t.Context()))
							all = slices.Delete(all, i, i+1)
							given++
						}
					}
				default:
					n := 1 + rng.Int64N(p.Burst)
					g, err := s.Reserve(t.Context(), key, p, n, time.Duration(unit*30)*time.Microsecond)
					if err != nil {
						require.ErrorIs(t, err, context.DeadlineExceeded)
						break
					}
					at := now + g.Wait.Microseconds()
					require.GreaterOrEqual(t, at, held)
					all = append(all, out{g, at, n})
					seen = now
				}
				now += rng.Int64N(1+unit) * rng.Int64N(4)
			}
			var g granted
			for _, o := range all {
				g = append(g, struct{ at, n int64 }{o.at, o.n})
			}
			require.NoError(t, g.over(p, p.Burst), "seed %d: %+v", seed, p)
			left += len(g)
		}
		require.Greater(t, left, times(1000))
		require.Greater(t, given, times(40))
	})
}
