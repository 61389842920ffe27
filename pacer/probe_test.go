package pacer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A hold over MaxHold is tried by one call of whatever size, and again after as
// long.
func TestOneCallOfAnySizeTries(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 10} {
		for name, p := range map[string]*Pacer{
			"burst":         {Rate: Per(100, time.Second), Burst: 10},
			"default burst": {Rate: Per(100, time.Second)},
			"leaky":         {Rate: Per(100, time.Second), Shape: LeakyBucket},
			"no rate":       {},
		} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p.MaxHold, p.MaxWait, p.rand = time.Minute, -1, func() float64 { return 0 }
					start := time.Now()
					p.Hold("k", start.Add(150*time.Second))
					require.Equal(t, start.Add(time.Minute), Forecast(start, Claim{p, "k", n}))
					require.Equal(t, time.Minute, leave(t, p, start, "k", n))
					require.Equal(t, 2*time.Minute, leave(t, p, start, "k", n))
					end := 150 * time.Second
					if p.Burst > 0 || name == "default burst" {
						end += time.Duration(max(0, n-1)) * 10 * ms
					}
					require.Equal(t, end, leave(t, p, start, "k", n), "the end empties the bucket")
				})
			})
		}
	}
}

// One that may try a hold, but waits for another line until the hold ends and
// empties the bucket, is not forgotten.
func TestHoldEndsUnderOneThatCouldHaveTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sharp := func() float64 { return 0 }
		p := &Pacer{Rate: Per(10, time.Second), Burst: 5, MaxHold: time.Second, rand: sharp}
		q := &Pacer{rand: sharp}
		start := time.Now()
		p.Hold("k", start.Add(10*time.Second))
		q.Hold("k", start.Add(10200*ms))
		_, err := WaitAll(t.Context(), Claim{p, "k", 5}, Claim{q, "k", 1})
		require.NoError(t, err)
		require.Equal(t, 10400*ms, time.Since(start))
	})
}
