package gradient

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/internal/admission"
)

const (
	ms     = time.Millisecond
	sec    = time.Second
	minute = time.Minute
)

// seeds is how many runs each figure is the worst of.
func seeds() uint64 {
	if testing.Short() {
		return 2
	}
	return 10
}

// halved is a server of 20 workers and 50 ms, so 400 requests a second, half of
// whose workers are gone from 150 s to 225 s.
func halved(seed uint64, load float64, l limiter) *house {
	h := newHouse(seed, 20, 50*ms, 400*load, l)
	h.workers = func(now int64) int {
		if now >= int64(150*sec) && now < int64(225*sec) {
			return 10
		}
		return 20
	}
	return h
}

var phases = []struct {
	from, to time.Duration
	ideal    float64 // the lowest fixed limit that serves 99 % with a p99 within 300 ms
}{
	{100 * sec, 150 * sec, 26},
	{180 * sec, 225 * sec, 14},
	{270 * sec, 300 * sec, 26},
}

// possible is what any limit can serve: all that comes, or all that the workers
// can do, by the very requests of this run.
func possible(p phase) float64 { return min(p.arrived, p.goodput/p.used) }

// TestCapacity is the bar: at half, one and a half and three times the load, with
// all workers and with half of them, with and without a queue at the door.
func TestCapacity(t *testing.T) {
	large(t)
	doors := map[string]func(*house) *house{
		"no queue": func(h *house) *house { return h },
		"queue":    func(h *house) *house { return h.behind(admission.Milk) },
	}
	for name, door := range doors {
		for _, load := range []float64{0.5, 1.5, 3} {
			t.Run(fmt.Sprintf("%s, load %v", name, load), func(t *testing.T) {
				t.Parallel()
				var p99, whole time.Duration
				worst := [3]float64{1, 1, 1}
				for seed := uint64(1); seed <= seeds(); seed++ {
					h := door(halved(seed, load, &Limit{Min: 4, Seed: seed})).run(300 * sec)
					for i, in := range phases {
						p := h.phase(in.from, in.to)
						p99, whole = max(p99, p.p99), max(whole, p.whole)
						assert.LessOrEqual(t, p.whole, 300*ms, "seed %d, %v", seed, in.from)
						if i == 1 && load == 0.5 {
							continue // TestCapacityAtFullLoad
						}
						worst[i] = min(worst[i], p.goodput/possible(p))
						assert.LessOrEqual(t, p.mean, 1.5*in.ideal, "seed %d, %v", seed, in.from)
						assert.LessOrEqual(t, p.high, int(2*in.ideal), "seed %d, %v", seed, in.from)
					}
				}
				for i, share := range worst {
					assert.GreaterOrEqual(t, share, 0.98, "phase %d", i)
				}
				t.Logf("goodput %.3f of what is possible, p99 %v, with the wait at the door %v", worst, p99.Round(ms), whole.Round(ms))
			})
		}
	}
}

// TestCapacityAtFullLoad is what TestCapacity leaves out: with exactly as much
// coming as the workers can do, no limit serves all and keeps the queue short.
// What can be had is what the best fixed limit with a p99 within 300 ms has.
func TestCapacityAtFullLoad(t *testing.T) {
	large(t)
	const runs = 10
	phase := phases[1]
	best, mean, worst := 0.0, 0.0, 1.0
	for _, limit := range []int{24, 26, 28, 30, 32} {
		served, p99 := 0.0, time.Duration(0)
		for seed := uint64(1); seed <= runs; seed++ {
			p := halved(seed, 0.5, fixed(limit)).run(phase.to).phase(phase.from, phase.to)
			served += p.goodput / runs
			p99 = max(p99, p.p99)
		}
		if p99 <= 300*ms {
			best = max(best, served)
		}
	}
	for seed := uint64(1); seed <= runs; seed++ {
		p := halved(seed, 0.5, &Limit{Min: 4, Seed: seed}).run(phase.to).phase(phase.from, phase.to)
		mean += p.goodput / best / runs
		worst = min(worst, p.goodput/p.arrived)
		assert.LessOrEqual(t, p.p99, 300*ms)
	}
	assert.GreaterOrEqual(t, mean, 0.98)
	t.Logf("%.3f of what the best fixed limit serves, at least %.3f of what comes", mean, worst)
}
