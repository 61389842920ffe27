package limiter

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever reads the clock and is kept from running, before it comes by the lock
// or on the way there, must not look like a clock that has stepped back: that
// would bring the state of an exhausted key closer, and create units.
func TestLateGoroutinesCreateNoUnits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	perMs := float64(time.Millisecond)
	for _, test := range []struct {
		limit *Limit
		burst float64 // what may pass beside the rate
		rate  float64 // per nanosecond
	}{
		{made(TokenBucket("b", Per(1000, time.Second), 100)), 100, 1 / perMs},
		{made(SlidingLog("l", 100, 100*time.Millisecond)), 100, 1 / perMs},
		{made(SlidingCounter("c", 100, 100*time.Millisecond)), 200, 1.2 / perMs},
		{made(FixedWindow("f", 100, 100*time.Millisecond, ToFirst)), 100, 1 / perMs},
		{made(FixedWindow("w", 100, 100*time.Millisecond, ToClock)), 200, 1 / perMs},
	} {
		for _, stack := range []bool{false, true} {
			if raced && !stack {
				continue // where there are two limits there is one
			}
			var m Memory
			all := made(FixedWindow("all", 1<<40, time.Hour, ToFirst))
			var admitted atomic.Int64
			start := time.Now()
			stop := start.Add(100 * time.Millisecond)
			var wait sync.WaitGroup
			for range 64 {
				wait.Go(func() {
					for time.Now().Before(stop) {
						for range 20 {
							charges := []Charge{test.limit.Charge("k", 1), all.Charge("all", 1)}
							if !stack {
								charges = charges[:1]
							}
							if d, _ := m.Take(t.Context(), charges...); d.Allowed {
								admitted.Add(1)
							}
						}
					}
				})
			}
			wait.Wait()
			most := test.burst + test.rate*float64(time.Since(start))
			assert.LessOrEqual(t, float64(admitted.Load()), most, "%s, stack %v", test.limit.Kind(), stack)
		}
	}
}

// The same, in every path, with the instant of a goroutine that is late.
func TestLateIsNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{}
		once, busy := made(FixedWindow("once", 1, 24*time.Hour, ToFirst)), window("busy", 1000)
		require.True(t, take(t, m, once, "k", 1).Allowed)
		c := m.start()
		late := c.clock.steady()
		time.Sleep(1200 * time.Millisecond)
		for range 10 {
			take(t, m, busy, "other", 1)
			time.Sleep(time.Millisecond)
		}
		c.due(late)
		assert.False(t, take(t, m, once, "k", 1).Allowed, "nothing is forgotten")

		s := &c.shards[c.shardOf(c.hash.of(once, "k"))]
		now := c.clock.steady()
		assert.Equal(t, now, s.now(now))
		assert.Equal(t, now, s.now(late))
		assert.Equal(t, now+1, s.now(now+1))
	})
}
