package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/politehttp/polite/internal/sim"
)

func TestExplore(t *testing.T) {
	run := func(name string, c Config, mean time.Duration, constant bool, load float64, timeout int64, tell bool) {
		h := newHouse(c, 1, func(s *sim.Sim) int64 {
			if constant {
				return int64(mean)
			}
			return s.Exp(mean)
		})
		var took []int64
		busy := int64(0)
		sv := h.service
		h.service = func() int64 { d := sv(); busy += d; return d }
		n, late := 0, 0
		h.served = func(t *Ticket) {
			n++
			if d := h.Now() - t.arrived; h.Now() >= 20*second {
				if d <= timeout {
					took = append(took, d)
				} else {
					late++
				}
			}
		}
		h.Poisson(sim.PerSecond(load*float64(c.Limit)/mean.Seconds()), func() {
			t := &Ticket{}
			if tell {
				t.Deadline = h.Now() + timeout
			}
			h.arrive(t)
		})
		h.Run(120 * second)
		cap := float64(n) / float64(busy) * float64(c.Limit) * 100e9
		fmt.Printf("%-28s L=%-4d %6v const=%-5v load %4v timeout %4dms tell=%-5v: %6.2f%% of capacity, late %5.2f%%, p99 %.0f ms\n", name, c.Limit, mean, constant, load, timeout/1e6, tell,
			100*float64(len(took))/cap, 100*float64(late)/cap, float64(sim.Percentile(took, .99))/1e6)
	}
	for _, order := range []Order{Wine, Milk} {
		for _, load := range []float64{.95, 1.5, 3} {
			o := map[Order]string{Wine: "wine", Milk: "milk"}[order]
			run(o, Config{Order: order, Limit: 10}, 20*time.Millisecond, true, load, second, false)
			run(o, Config{Order: order, Limit: 1}, 10*time.Millisecond, false, load, second, false)
			run(o, Config{Order: order, Limit: 100}, 10*time.Millisecond, false, load, second, false)
			run(o, Config{Order: order, Limit: 10}, time.Second, false, load, 10*second, false)
			run(o, Config{Order: order, Limit: 100}, time.Second, false, load, 10*second, false)
			run(o, Config{Order: order, Limit: 10}, 10*time.Millisecond, false, load, second/10, true)
			run(o, Config{Order: order, Limit: 10}, 10*time.Millisecond, false, load, second/20, true)
			run(o+" q1000", Config{Order: order, Limit: 10, Queue: 1000}, 10*time.Millisecond, false, load, second/10, true)
			run(o+" q1000", Config{Order: order, Limit: 10, Queue: 1000}, 10*time.Millisecond, false, load, second/20, true)
			run(o+" q1000 mw-", Config{Order: order, Limit: 10, Queue: 1000, MaxWait: -1}, 10*time.Millisecond, false, load, second/4, true)
		}
	}
}
