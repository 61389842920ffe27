package gradient

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const manyWorkers = 1 << 20 // a service without a bound on its concurrency

// slowed makes requests take factor times as long from 100 s until the end.
func slowed(h *house, factor float64, until time.Duration) *house {
	service := h.service
	h.service = func() int64 {
		s := service()
		if h.Now() >= int64(100*sec) && h.Now() < int64(until) {
			s = int64(float64(s) * factor)
		}
		return s
	}
	return h
}

// Half an hour of it is not what the server is measured by afterwards, nor is
// the work refused that it can do meanwhile (failsafe-go#127).
func TestHalfAnHourTenTimesSlower(t *testing.T) {
	large(t)
	for _, load := range []float64{0.5, 1.5} {
		t.Run(fmt.Sprintf("load %v", load), func(t *testing.T) {
			t.Parallel()
			l := &Limit{Min: 4}
			h := slowed(newHouse(1, 20, 50*ms, 400*load, l), 10, 1900*sec)
			h.run(1890 * sec)
			assert.Less(t, l.base, 1.6*float64(50*ms), "the base")
			during := h.phase(200*sec, 1890*sec)
			assert.Greater(t, during.used, 0.9, "of the workers' time")
			assert.Less(t, during.mean, 40.0)
			h.run(2000 * sec)
			after := h.phase(1910*sec, 2000*sec)
			assert.Greater(t, after.goodput/possible(after), 0.97)
			assert.Less(t, after.p99, 300*ms)
			t.Logf("during: %.1f/s, limit %d to %d, %.1f on average; after: %.1f/s, p99 %v, limit %d to %d",
				during.goodput, during.low, during.high, during.mean, after.goodput, after.p99.Round(ms), after.low, after.high)
		})
	}
}

// What became slower for good, and has no bound on its concurrency, needs a
// higher limit, and gets it.
func TestSlowerForGood(t *testing.T) {
	large(t)
	for _, c := range []struct {
		factor float64
		within time.Duration
	}{{1.5, 10 * sec}, {2, 10 * sec}, {3, 10 * sec}, {10, 30 * sec}} {
		for _, perSecond := range []float64{200, 600} {
			t.Run(fmt.Sprintf("%v times, %v/s", c.factor, perSecond), func(t *testing.T) {
				t.Parallel()
				for seed := uint64(1); seed <= 3; seed++ {
					h := newHouse(seed, manyWorkers, 50*ms, perSecond, &Limit{Min: 4, Seed: seed})
					slowed(h, c.factor, time.Hour).run(200 * sec)
					p := h.phase(100*sec+c.within, 200*sec)
					assert.Greater(t, p.goodput/p.arrived, 0.98, "seed %d", seed)
				}
			})
		}
	}
}

// Half the workers go at 150 s and come back at 225 s.
func TestFollowsWithinTenSeconds(t *testing.T) {
	large(t)
	for seed := uint64(1); seed <= 5; seed++ {
		h := halved(seed, 1.5, &Limit{Min: 4, Seed: seed}).run(300 * sec)
		gone, back := h.phase(160*sec, 170*sec), h.phase(235*sec, 245*sec)
		assert.Less(t, gone.mean, 28.0, "seed %d", seed)
		assert.Less(t, gone.p99, 320*ms, "seed %d", seed)
		assert.Greater(t, back.used, 0.95, "seed %d", seed)
	}
}

// Half the workers go at the very moment of a probe, which then sees the latency
// before under twice the limit and all the workers.
func TestChangeDuringAProbe(t *testing.T) {
	large(t)
	for seed := uint64(1); seed <= 10; seed++ {
		l := &Limit{Min: 4, Seed: seed}
		h := newHouse(seed, 20, 50*ms, 600, l)
		gone := int64(0)
		h.workers = func(now int64) int {
			if gone == 0 && now > int64(60*sec) && l.probe.on {
				gone = now
			}
			if gone != 0 {
				return 10
			}
			return 20
		}
		h.run(300 * sec)
		require.NotZero(t, gone)
		from := time.Duration(gone).Round(look) + 4*sec
		p := h.phase(from, from+10*sec)
		assert.Less(t, p.mean, 24.0, "seed %d", seed)
		assert.Less(t, p.p99, 320*ms, "seed %d", seed)
	}
}

// concurrency-limits#35, vector#3255.
func TestGrowsWithinSeconds(t *testing.T) {
	large(t)
	for name, service := range map[string]func(*house) func() int64{
		"all alike":   func(*house) func() int64 { return func() int64 { return int64(50 * ms) } },
		"exponential": func(h *house) func() int64 { return h.service },
		"errors too":  func(h *house) func() int64 { h.refuses = residual(h); return h.service },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(1, 1000, 50*ms, 12000, &Limit{Min: 4})
			h.service = service(h)
			h.run(5 * sec)
			assert.GreaterOrEqual(t, h.limiter.Limit(), 400)
		})
	}
}

// residual is half a percent of errors that have nothing to do with load
// (oumi#2508).
func residual(h *house) func(int) bool {
	return func(int) bool { return h.Rand.Float64() < 0.005 }
}

// A server as others have them.
func TestServers(t *testing.T) {
	large(t)
	pareto := func(h *house, mean time.Duration, alpha float64) {
		least := float64(mean) * (alpha - 1) / alpha
		h.service = func() int64 { return int64(least * math.Pow(1-h.Rand.Float64(), -1/alpha)) }
	}
	for _, c := range []struct {
		name     string
		workers  int
		mean     time.Duration
		load     float64 // of what the workers can do
		limit    *Limit
		made     func(*house)
		from, to time.Duration
		used     float64 // at least, of the workers' time
		high     int     // at most
	}{
		{"requests all alike", 20, 50 * ms, 1.5, &Limit{Min: 4}, func(h *house) { h.service = func() int64 { return int64(50 * ms) } }, 20 * sec, 120 * sec, 0.98, 40},
		{"a heavy tail", 20, 50 * ms, 1.5, &Limit{Min: 4}, func(h *house) { pareto(h, 50*ms, 1.5) }, 20 * sec, 120 * sec, 0.97, 56},
		{"a heavier tail", 20, 50 * ms, 1.5, &Limit{Min: 4}, func(h *house) { pareto(h, 50*ms, 1.2) }, 20 * sec, 120 * sec, 0.93, 60},
		{"a lock", 1, ms, 1.5, &Limit{Min: 4}, nil, 5 * sec, 30 * sec, 0.95, 16},
		{"a lock, three times the load", 1, ms, 3, &Limit{}, nil, 5 * sec, 30 * sec, 0.85, 5},
		{"one worker from the middle of three times the load", 1, 50 * ms, 3, &Limit{Min: 2}, nil, 90 * sec, 300 * sec, 0.9, 8},
		{"five workers from the middle of three times the load", 5, 50 * ms, 3, &Limit{Min: 4}, nil, 20 * sec, 120 * sec, 0.95, 16},
		{"a thousand workers of 1 ms", 1000, ms, 1.2, &Limit{Min: 4, Max: 5000, Initial: 500}, nil, 1200 * ms, 1500 * ms, 0.98, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(1, c.workers, c.mean, c.load*float64(c.workers)/c.mean.Seconds(), c.limit)
			if c.made != nil {
				c.made(h)
			}
			p := h.run(c.to).phase(c.from, c.to)
			assert.GreaterOrEqual(t, p.used, c.used)
			assert.LessOrEqual(t, p.high, c.high)
			t.Logf("%.3f of the workers' time, %.1f/s, p99 %v, limit %d to %d", p.used, p.goodput, p.p99, p.low, p.high)
		})
	}
}

// At four fifths of the load nothing is refused that matters, and nothing is
// probed (envoy#38338, envoy#46532, envoy#8337).
func TestNoProbeWhereThereIsRoom(t *testing.T) {
	large(t)
	for seed := uint64(1); seed <= seeds(); seed++ {
		l := &Limit{Min: 4, Seed: seed}
		h := newHouse(seed, 20, 50*ms, 320, l)
		probes := 0
		var look func()
		look = func() {
			if l.probe.on {
				probes++
			}
			h.After(int64(50*ms), look)
		}
		h.After(int64(10*sec), look)
		p := h.run(200*sec).phase(10*sec, 200*sec)
		assert.Zero(t, probes, "seed %d", seed)
		assert.GreaterOrEqual(t, p.goodput/p.arrived, 0.99, "seed %d", seed)
		assert.GreaterOrEqual(t, p.low, 20, "seed %d", seed)
	}
}

// Processes that serve the same load do not probe at the same time (envoy#46532).
func TestProbesApart(t *testing.T) {
	large(t)
	begun := func(seed uint64) []time.Duration {
		l := &Limit{Min: 4, Seed: seed}
		h := newHouse(1, 20, 50*ms, 600, l)
		h.service = func() int64 { return int64(50 * ms) }
		var at []time.Duration
		on := false
		var look func()
		look = func() {
			if l.probe.on && !on {
				at = append(at, time.Duration(h.Now()).Round(sec))
			}
			on = l.probe.on
			h.After(int64(100*ms), look)
		}
		h.At(0, look)
		h.run(1200 * sec)
		return at
	}
	first, second := begun(1), begun(2)
	require.Greater(t, len(first), 10, "once a minute or so")
	require.Less(t, len(first), 60)
	together := 0
	for _, a := range first {
		for _, b := range second {
			if a == b {
				together++
			}
		}
	}
	assert.LessOrEqual(t, together, len(first)/4)
}

// A callee that refuses at once what is over its own limit neither looks quick
// nor pulls the limit down to nothing (concurrency-limits#176).
func TestInstantRefusalsAreNotQuickAnswers(t *testing.T) {
	large(t)
	h := newHouse(1, 1000, 50*ms, 8000, &Limit{Min: 4})
	h.refuses = func(inFlight int) bool { return inFlight > 30 }
	p := h.run(60*sec).phase(5*sec, 60*sec)
	assert.LessOrEqual(t, p.high, 50)
	assert.GreaterOrEqual(t, p.low, 24)
	assert.Greater(t, p.goodput, 500.0)
}

// concurrency-limits#155.
func TestStaysAtMax(t *testing.T) {
	large(t)
	h := newHouse(1, 100, 50*ms, 3000, &Limit{Min: 4, Max: 40})
	p := h.run(100*sec).phase(10*sec, 100*sec)
	assert.Equal(t, 40, p.high)
	assert.Equal(t, 40, p.low)
}
