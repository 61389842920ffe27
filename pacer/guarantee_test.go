package pacer

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/quick"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
)

// ledger is what left, by the pacer's own stamps.
type ledger struct {
	mu  sync.Mutex
	all map[string][]observe.Paced
}

func (g *ledger) on(ctx context.Context) context.Context {
	g.all = map[string][]observe.Paced{}
	return observe.With(ctx, &observe.Hooks{Paced: func(_ context.Context, e observe.Paced) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.all[e.Key] = append(g.all[e.Key], e)
	}})
}

// over tells where more than burst + rate × T units of a key left in an
// interval, if anywhere. It is exact to the picosecond that float64 costs.
func (g *ledger) over(rate Rate, burst int64) error {
	for key, all := range g.all {
		for i, from := range all {
			units := int64(0)
			for _, to := range all[i:] {
				units += to.N
				can, _ := mulDiv(rate.Count, int64(to.At.Sub(from.At))*1000+1, int64(rate.Per)*1000)
				if units > burst+can {
					return fmt.Errorf("%s: %d units in %v", key, units, to.At.Sub(from.At))
				}
			}
		}
	}
	return nil
}

// short tells where two departures are less than n × Per/Count apart.
func (g *ledger) short(rate Rate) error {
	for key, all := range g.all {
		for i := 1; i < len(all); i++ {
			gap := all[i].At.Sub(all[i-1].At)
			if all[i].N > 0 && int64(gap) < rate.span(all[i-1].N) {
				return fmt.Errorf("%s: %v after %d units", key, gap, all[i-1].N)
			}
		}
	}
	return nil
}

// The pacer's guarantee, whatever callers do: several claims, both classes,
// calls that end, sleepers that wake late, holds, and rates that change (to
// lower ones, so that the first bounds all).
func TestGuarantee(t *testing.T) {
	quickly := &quick.Config{MaxCount: rounds(250)}
	require.NoError(t, quick.Check(func(seed uint64, count uint16, burst uint8, leaky, changes bool) bool {
		var err error
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			rate := Rate{int64(count)%5000 + 1, time.Second}
			p := &Pacer{Rate: rate, Burst: int64(burst)%20 + 3, MaxWait: -1, MaxInFlight: rnd.IntN(3) * 5}
			if leaky {
				p.Shape = LeakyBucket
			}
			q := &Pacer{Rate: Rate{2*int64(count) + 1, time.Second}, Burst: 10, MaxWait: -1}
			var mu sync.Mutex
			p.lag = func() {
				mu.Lock()
				late := rnd.IntN(4) == 0
				d := time.Duration(rnd.Int64N(int64(5 * time.Second / time.Duration(rate.Count))))
				mu.Unlock()
				if late {
					time.Sleep(d)
				}
			}
			var g ledger
			ctx := g.on(t.Context())
			var wg sync.WaitGroup
			for i := range 200 {
				mu.Lock()
				key, n := string('a'+rune(rnd.IntN(2))), 1+rnd.Int64N(3)
				class, ends := Priority(rnd.IntN(2)), rnd.IntN(5) == 0
				both, hold := rnd.IntN(3) == 0, rnd.IntN(60) == 0
				pause := time.Duration(rnd.Int64N(int64(2 * time.Second / time.Duration(rate.Count))))
				mu.Unlock()
				wg.Go(func() {
					ctx, cancel := context.WithCancel(WithPriority(ctx, class))
					defer cancel()
					if ends {
						time.AfterFunc(3*pause, cancel)
					}
					claims := []Claim{{p, key, n}}
					if both {
						claims = append(claims, Claim{q, "q", 1})
					}
					if release, err := WaitAll(ctx, claims...); err == nil {
						time.Sleep(pause / 2)
						release()
					}
				})
				if hold {
					p.Hold(key, time.Now().Add(7*pause))
				}
				if changes && i%50 == 49 {
					rate := Rate{max(1, rate.Count*int64(250-i)/250), time.Second}
					p.SetRate(rate, max(3, p.Burst-int64(i/50)))
				}
				if i%2 == 0 {
					time.Sleep(pause)
				}
			}
			wg.Wait()
			delete(g.all, "q")
			if leaky {
				err = g.short(rate)
			} else {
				err = g.over(rate, p.Burst)
			}
			assert.NoError(t, err)
			assert.Zero(t, p.Stats().Waiting+q.Stats().Waiting)
		})
		return err == nil
	}, quickly))
}

// Whoever keeps all tokens busy gets the rate to the unit.
func TestNothingIsLost(t *testing.T) {
	for _, c := range []struct {
		rate    Rate
		burst   int64
		callers int
	}{{Per(7, time.Second), 1, 1}, {Per(7, time.Second), 3, 5}, {Per(100_003, time.Minute), 40, 3}, {Per(1, 7*time.Second), 2, 2}} {
		synctest.Test(t, func(t *testing.T) {
			p := &Pacer{Rate: c.rate, Burst: c.burst, MaxWait: -1}
			var g ledger
			ctx, cancel := context.WithTimeout(g.on(t.Context()), 10*c.rate.Per+1)
			defer cancel()
			if c.rate.Count > 1000 {
				ctx, cancel = context.WithTimeout(g.on(t.Context()), time.Second+1)
				defer cancel()
			}
			start := time.Now()
			deadline, _ := ctx.Deadline()
			var wg sync.WaitGroup
			for range c.callers {
				wg.Go(func() {
					for {
						if _, err := p.Wait(ctx, "k", 1); err != nil {
							return
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, g.over(c.rate, c.burst))
			window := deadline.Sub(start) - 1
			want := float64(c.rate.Count) * float64(window) / float64(c.rate.Per)
			assert.InDelta(t, want+float64(c.burst), len(g.all["k"]), 1)
		})
	}
}

func TestMulDiv(t *testing.T) {
	require.NoError(t, quick.Check(func(a, b uint32, c uint16) bool {
		q, r := mulDiv(int64(a), int64(b), int64(c)+1)
		m := int64(uint64(a) * uint64(b) / (uint64(c) + 1))
		return q == m && r == int64(uint64(a)*uint64(b)%(uint64(c)+1))
	}, nil))
	q, _ := mulDiv(math.MaxInt64, math.MaxInt64, 1)
	assert.Equal(t, int64(math.MaxInt64), q)
	assert.Equal(t, int64(never), Rate{1, math.MaxInt64}.span(3))
	assert.Equal(t, int64(never), later(never-1, 5))
}
