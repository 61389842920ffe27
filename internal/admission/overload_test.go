package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/internal/sim"
)

const (
	second      = int64(time.Second)
	millisecond = int64(time.Millisecond)
)

// flood offers so many times what they can do to ten workers for 20 s, and says
// what came back within 1 s, as a share of the workers' time, and the 99th
// percentile of how long that took. The first 3 s are cut. With told, the
// clients say that they wait no longer.
func flood(c Config, seed uint64, service func(*sim.Sim) int64, mean time.Duration, load float64, told bool) (goodput, p99 float64) {
	const from, until = 3, 20
	c.Limit = 10
	h := newHouse(c, seed, service)
	var took []int64
	var work int64
	h.served = func(t *Ticket) {
		if d := h.Now() - t.arrived; h.Now() >= from*second && d <= second {
			took = append(took, d)
			work += d - t.Waited()
		}
	}
	h.Poisson(sim.PerSecond(load*10/mean.Seconds()), func() {
		t := &Ticket{}
		if told {
			t.Deadline = h.Now() + second
		}
		h.arrive(t)
	})
	h.Run(until * second)
	return float64(work) / float64(10*(until-from)*second), float64(sim.Percentile(took, .99)) / 1e6
}

// TestFlood holds what the defaults are for: ten workers of 10 ms lose nothing
// to ten times what they can do, and nobody waits long.
func TestFlood(t *testing.T) {
	large(t)
	for _, order := range []Order{Wine, Milk} {
		for _, load := range []float64{1.5, 3, 10} {
			for _, told := range []bool{false, true} {
				if told && load != 3 {
					continue
				}
				t.Run(fmt.Sprintf("order=%d,load=%v,deadline=%v", order, load, told), func(t *testing.T) {
					t.Parallel()
					worst, slowest := 1., 0.
					for seed := range uint64(10) {
						goodput, p99 := flood(Config{Order: order}, seed, exponential(10*time.Millisecond), 10*time.Millisecond, load, told)
						worst, slowest = min(worst, goodput), max(slowest, p99)
					}
					t.Logf("%.2f %% of capacity, p99 %.1f ms", 100*worst, slowest)
					assert.GreaterOrEqual(t, worst, .999)
					assert.LessOrEqual(t, slowest, 70.)
				})
			}
		}
	}
	t.Run("constant", func(t *testing.T) {
		for seed := range uint64(10) {
			goodput, p99 := flood(Config{}, seed, func(*sim.Sim) int64 { return 20 * millisecond }, 20*time.Millisecond, 3, false)
			assert.GreaterOrEqual(t, goodput, .999)
			assert.LessOrEqual(t, p99, 62.) // twice the limit waits: two rounds, and one's own
		}
	})
	t.Run("without bounds nothing comes in time", func(t *testing.T) {
		goodput, _ := flood(Config{Queue: 1e9, MaxWait: -1}, 1, exponential(10*time.Millisecond), 10*time.Millisecond, 3, false)
		assert.Less(t, goodput, .2)
	})
	t.Run("without bounds, told", func(t *testing.T) { // the deadline alone saves most of it
		goodput, _ := flood(Config{Queue: 1e9, MaxWait: -1}, 1, exponential(10*time.Millisecond), 10*time.Millisecond, 3, true)
		assert.Greater(t, goodput, .9)
	})
}
