package pacer

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/quick"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// WaitAll over two keys of one pacer: the second must not take the first's
// place.
func TestWaitAllKeepsWhatItFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Minute), Burst: 1, MaxKeys: 3}
		start := time.Now()
		leave(t, p, start, "x", 1)
		leave(t, p, start, "y", 1)
		_, err := WaitAll(t.Context(), Claim{p, "a", 1}, Claim{p, "b", 1})
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		require.Equal(t, time.Minute, leave(t, p, start, "a", 1))

		time.Sleep(time.Hour)
		for _, key := range []string{"c", "d", "e"} {
			leave(t, p, start, key, 1)
		}
		require.ElementsMatch(t, []string{"c", "d", "e"}, keysOf(p), "nothing stays pinned")
	})
}

// A held key is not as new before the hold's end has emptied its bucket.
func TestHeldKeyStaysUntilRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), Burst: 10, MaxKeys: 1, rand: func() float64 { return 0 }}
		start := time.Now()
		p.Hold("a", start.Add(10*time.Second))
		time.Sleep(11 * time.Second)
		leave(t, p, start, "b", 1)
		for range 9 {
			leave(t, p, start, "a", 1)
		}
		require.Equal(t, 19*time.Second, leave(t, p, start, "a", 1), "two units by 11 s, then one a second")
		time.Sleep(10*time.Second - 1)
		leave(t, p, start, "b", 1)
		require.Equal(t, []string{"a"}, keysOf(p))
		time.Sleep(time.Second)
		leave(t, p, start, "b", 1)
		require.Equal(t, []string{"b"}, keysOf(p))
	})
}

// The guarantee holds when keys come and go all the time, share entries, and
// are claimed together.
func TestGuaranteeWithFewKeys(t *testing.T) {
	quickly := &quick.Config{MaxCount: rounds(300)}
	require.NoError(t, quick.Check(func(seed uint64, leaky, held bool) bool {
		var err error
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			rate := Rate{1 + rnd.Int64N(50), time.Second}
			p := &Pacer{Rate: rate, Burst: 3 + rnd.Int64N(8), MaxWait: -1, MaxKeys: 2, MaxHold: 200 * ms}
			if leaky {
				p.Shape = LeakyBucket
			}
			var g ledger
			ctx := g.on(t.Context())
			var wg sync.WaitGroup
			for range 80 {
				at := time.Duration(rnd.Int64N(int64(4 * time.Second)))
				claims := make([]Claim, 1+rnd.IntN(3))
				for i := range claims {
					claims[i] = Claim{p, string('a' + rune(rnd.IntN(4))), 1 + rnd.Int64N(max(1, p.Burst/3))}
				}
				hold := time.Duration(0)
				if held && rnd.IntN(10) == 0 {
					hold = time.Duration(rnd.Int64N(int64(time.Second)))
				}
				ctx, cancel := context.WithCancel(ctx)
				if rnd.IntN(4) == 0 {
					time.AfterFunc(at+time.Duration(rnd.Int64N(int64(time.Second))), cancel)
				}
				wg.Go(func() {
					defer cancel()
					time.Sleep(at)
					if hold > 0 {
						p.Hold(claims[0].Key, time.Now().Add(hold))
						return
					}
					if release, err := WaitAll(ctx, claims...); err == nil {
						release()
					}
				})
			}
			wg.Wait()
			if err = g.over(rate, p.Burst); err == nil && leaky {
				err = g.short(rate)
			}
		})
		if err != nil {
			t.Log(seed, err)
		}
		return err == nil
	}, quickly))
}
