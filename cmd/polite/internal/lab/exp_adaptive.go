package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/gradient"
	"github.com/politehttp/polite/internal/sim"
)

var adaptive = Experiment{
	Name:  "adaptive",
	Title: "A limit that finds out by itself how much a server can do at once",
	Teaches: "A limit that somebody measured once is right until the server changes: here half of the workers are gone for " +
		"75 seconds. A limit that watches how long requests take follows: it grows only while latency stays flat, and " +
		"when latency grows with the limit, the limit is what it should be. It must not take the noise of service " +
		"times for overload, or it leaves capacity unused, and it must not take a long overload for normal, or it " +
		"grows without end.",
	Run: runAdaptive,
}

const (
	adaptiveWorkers = 20
	adaptiveHalf    = 10
	adaptiveService = 50 * time.Millisecond
	adaptiveFull    = 400 // requests a second
	halvedFrom      = 150 // seconds
	halvedTo        = 225
	adaptiveEnd     = 300
	adaptiveIdeal   = 26 // the smallest fixed limit that uses all of the server
)

// adaptivePhases are looked at: from, to; before, while and after half of the
// workers are gone, each without the time to settle.
var adaptivePhases = [3][2]int64{{100, 150}, {180, 225}, {270, 300}}

// adaptiveRun is what came of one load under one limit.
type adaptiveRun struct {
	phases          [3]adaptivePhase
	limit, inFlight []draw.Point
}

type adaptivePhase struct {
	arrived  int
	done     int // within 1 s
	took     []int64
	limit    float64 // mean
	highest  int
	samples  int
	workers  int
	jobs     int
	work     int64
	duration float64
}

// possible is how many could have been done.
func (p *adaptivePhase) possible() float64 {
	mean := float64(p.work) / float64(p.jobs) / float64(second)
	return min(float64(p.arrived), float64(p.workers)*p.duration/mean)
}

func (p *adaptivePhase) share() float64 { return 100 * float64(p.done) / p.possible() }
func (p *adaptivePhase) p99() float64   { return float64(sim.Percentile(p.took, 0.99)) / float64(ms) }

// A watcher is told how long requests took, and says how many may be inside.
type watcher interface {
	Sample(now, rtt int64, inFlight int, dropped bool)
	Limit() int
}

// fixed is a limit that does not change.
type fixed int

func (fixed) Sample(int64, int64, int, bool) {}
func (f fixed) Limit() int                   { return int(f) }

// runLimited puts a limit in front of a server with a line of its own. Queue is
// that of the gate.
func runLimited(seed uint64, load float64, l watcher, waiting int) *adaptiveRun {
	s := sim.New(seed)
	run := new(adaptiveRun)
	phase := func() *adaptivePhase {
		for i, p := range adaptivePhases {
			if t := s.Now(); t >= p[0]*second && t < p[1]*second {
				return &run.phases[i]
			}
		}
		return new(adaptivePhase)
	}
	p := &pool{sim: s, workers: adaptiveWorkers, service: func() int64 {
		d := s.Exp(adaptiveService)
		at := phase()
		at.jobs++
		at.work += d
		return d
	}}
	for i, at := range adaptivePhases {
		run.phases[i].duration = float64(at[1] - at[0])
		run.phases[i].workers = adaptiveWorkers
	}
	run.phases[1].workers = adaptiveHalf
	s.At(halvedFrom*second, func() { p.resize(adaptiveHalf) })
	s.At(halvedTo*second, func() { p.resize(adaptiveWorkers) })

	g := newGated(s, admission.Config{Limit: l.Limit(), Queue: waiting})
	g.leaves = func(r *request) {
		l.Sample(s.Now(), s.Now()-r.started, g.gate.InFlight(), false)
		g.gate.SetLimit(l.Limit())
	}
	c := &caller{sim: s, server: &guarded{g, p}, timeout: second, over: func(_ *attempt, ok bool) {
		if ok {
			phase().done++
		}
	}, answered: func(took int64) {
		at := phase()
		at.took = append(at.took, took)
	}}
	s.Poisson(sim.PerSecond(adaptiveFull*load/100), func() {
		phase().arrived++
		c.call()
	})
	var look func()
	look = func() {
		at := phase()
		at.limit = (at.limit*float64(at.samples) + float64(l.Limit())) / float64(at.samples+1)
		at.samples++
		at.highest = max(at.highest, l.Limit())
		if s.Now()%second == 0 {
			x := float64(s.Now()) / float64(second)
			run.limit = append(run.limit, draw.Point{X: x, Y: float64(l.Limit())})
			run.inFlight = append(run.inFlight, draw.Point{X: x, Y: float64(g.gate.InFlight())})
		}
		s.After(100*ms, look)
	}
	look()
	s.Run(adaptiveEnd * second)
	return run
}

const nobodyWaits = -1

// adaptiveFigures are what must hold of ours.
func adaptiveFigures(seed uint64) (figures []Figure) {
	for _, load := range []float64{50, 150, 300} {
		run := runLimited(seed, load, &gradient.Limit{Seed: seed}, nobodyWaits)
		before, half, after := &run.phases[0], &run.phases[1], &run.phases[2]
		done := min(before.share(), after.share())
		if load > 50 { // at 50 % the halved server is at its very limit: any limit loses some
			done = min(done, half.share())
		}
		figures = append(figures,
			atLeast(fmt.Sprintf("adaptive, %.0f %% load: done, of what can be", load), done, 98, "%"),
			atMost(fmt.Sprintf("adaptive, %.0f %% load: 99 %% take", load), max(before.p99(), after.p99()), 300, "ms"),
			atMost(fmt.Sprintf("adaptive, %.0f %% load: the limit, of the ideal one", load), float64(max(before.highest, after.highest))/adaptiveIdeal, 2, ""))
	}
	return figures
}

func runAdaptive(_ context.Context, o Options) (*Result, error) {
	result := &Result{Figures: adaptiveFigures(o.Seed)}
	table := Table{
		Title:   "20 workers, 50 ms on average; 10 of them from 150 s to 225 s",
		Columns: []string{"limit", "load, %", "done, per s: 20 workers", "10 workers", "20 again", "99 % take, ms", "10 workers", "20 again", "mean limit", "10 workers", "20 again"},
	}
	cases := []struct {
		name  string
		new   func() watcher
		queue int
	}{
		{"none", func() watcher { return fixed(1 << 30) }, nobodyWaits},
		{"fixed, 26", func() watcher { return fixed(adaptiveIdeal) }, nobodyWaits},
		{"ours", func() watcher { return &gradient.Limit{Seed: o.Seed} }, nobodyWaits},
		{"ours, with a queue in front", func() watcher { return &gradient.Limit{Seed: o.Seed} }, 0},
	}
	loads := []float64{50, 150, 300}
	for i, run := range abreast(len(cases)*len(loads), func(i int) *adaptiveRun {
		c := cases[i/len(loads)]
		return runLimited(o.Seed, loads[i%len(loads)], c.new(), c.queue)
	}) {
		c, load := cases[i/len(loads)], loads[i%len(loads)]
		cells := []any{c.name, load}
		for _, p := range run.phases {
			cells = append(cells, float64(p.done)/p.duration)
		}
		for _, p := range run.phases {
			cells = append(cells, p.p99())
		}
		for _, p := range run.phases {
			if c.name == "none" {
				cells = append(cells, "–")
			} else {
				cells = append(cells, p.limit)
			}
		}
		table.Add(cells...)
		if c.name == "ours" && load == 150 {
			result.Pictures = append(result.Pictures, draw.Picture{
				Name:   "adaptive",
				Title:  "A limit that adapts, at a load of 150 %, while half of the workers are gone",
				Says:   "The limit stays near what the server can work on, follows within seconds when half of it is gone, and comes back. The short dips are probes: how fast is a request that waits for no other?",
				X:      draw.Axis{Label: "time, s", Min: 0, Max: adaptiveEnd},
				Y:      draw.Axis{Label: "requests at once", Min: 0, Max: 60},
				Limits: []draw.Limit{{Name: "20 workers", Y: adaptiveWorkers}, {Name: "10 workers", Y: adaptiveHalf}},
				Marks:  []draw.Mark{{Name: "half is gone", X: halvedFrom}, {Name: "all are back", X: halvedTo}},
				Series: []draw.Series{{Name: "in flight", Kind: draw.Steps, Points: run.inFlight}, {Name: "limit", Kind: draw.Steps, Points: run.limit}},
			})
		}
	}
	result.Tables = append(result.Tables, table)
	return result, nil
}
