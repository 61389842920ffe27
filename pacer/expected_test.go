package pacer

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The tree says what a look at each place would say.
func TestExpected(t *testing.T) {
	quickly := &quick.Config{MaxCount: rounds(300)}
	require.NoError(t, quick.Check(func(seed uint64) bool {
		rnd := rand.New(rand.NewPCG(seed, 0))
		start := time.Now()
		var e expected
		var in []*place
		for i := range uint64(200) {
			if len(in) > 0 && rnd.IntN(3) == 0 {
				k := rnd.IntN(len(in))
				e.remove(in[k])
				in = append(in[:k], in[k+1:]...)
			} else {
				eta := start.Add(time.Duration(rnd.IntN(50))) // many at one instant
				p := &place{n: rnd.Int64N(5), waiter: &waiter{eta: eta, arrival: i}}
				e.add(p, rnd.Uint64N(20))
				in = append(in, p)
			}
			at := start.Add(time.Duration(rnd.IntN(52) - 1))
			by, all := int64(0), int64(0)
			for _, p := range in {
				all += p.n
				if !p.waiter.eta.After(at) {
					by += p.n
				}
			}
			if e.by(at) != by || e.all() != all {
				return false
			}
		}
		return true
	}, quickly))
}

// However many wait, few of them are looked at.
func TestExpectedIsShallow(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	var e expected
	for i := range uint64(10_000) { // in order, as they come
		e.add(&place{n: 1, waiter: &waiter{eta: start.Add(time.Duration(i)), arrival: i}}, rnd.Uint64())
	}
	var depth func(*place) int
	depth = func(p *place) int {
		if p == nil {
			return 0
		}
		return 1 + max(depth(p.node.sooner), depth(p.node.later))
	}
	require.Less(t, depth(e.root), 60)
	require.EqualValues(t, 5000, e.by(start.Add(4999)))
}

// One that waits for another line changes nothing for those who wait for this
// one alone: each of them goes before a newcomer.
func TestRefusalIsExactBesideOneThatWaitsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &Pacer{Rate: Per(1, time.Second), Burst: 1}
		q := &Pacer{Rate: Per(1, time.Minute), Burst: 1}
		leave(t, p, start, "k", 1)
		leave(t, q, start, "q", 1)
		go func() { _, _ = WaitAll(t.Context(), Claim{p, "k", 1}, Claim{q, "q", 1}) }()
		for range 30 {
			go func() { _, _ = p.Wait(t.Context(), "k", 1) }()
		}
		synctest.Wait()
		for _, deadline := range []time.Duration{31 * time.Second, 31*time.Second + 1} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			require.Equal(t, start.Add(31*time.Second), Forecast(start, Claim{p, "k", 1}))
			_, err := p.Wait(ctx, "k", 1)
			if cancel(); deadline == 31*time.Second {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Zero(t, time.Since(start), "refused before it waits")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, 31*time.Second, time.Since(start))
		}
	})
}
