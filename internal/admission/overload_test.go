package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/internal/sim"
)

const second = int64(time.Second)

// flood offers a server of 10 workers, exponential 10 ms, so many times what it
// can do, and says what came back within a client's timeout of 1 s. The first
// 20 s are cut.
func flood(c Config, seed uint64, load float64, deadline bool) (goodput, p99 float64) {
	const capacity = 1000
	c.Limit = 10
	h := newHouse(c, seed, exponential(10*time.Millisecond))
	var took []int64
	h.served = func(t *Ticket) {
		if d := h.Now() - t.arrived; h.Now() >= 20*second && d <= second {
			took = append(took, d)
		}
	}
	h.Poisson(sim.PerSecond(load*capacity), func() {
		t := &Ticket{}
		if deadline {
			t.Deadline = h.Now() + second
		}
		h.arrive(t)
	})
	h.Run(60 * second)
	return float64(len(took)) / 40, float64(sim.Percentile(took, .99)) / 1e6
}

func TestFlood(t *testing.T) {
	for _, order := range []Order{Wine, Milk} {
		for _, load := range []float64{.9, 1.5, 3, 10} {
			worst, slowest := 1e9, 0.
			for seed := range uint64(10) {
				got, p99 := flood(Config{Order: order}, seed, load, false)
				worst, slowest = min(worst, got), max(slowest, p99)
			}
			fmt.Printf("order %d load %v: %.1f/s p99 %.1f ms\n", order, load, worst, slowest)
			assert.Positive(t, worst)
		}
	}
}
