package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/sim"
)

var overloadExperiment = Experiment{
	Name:  "overload",
	Title: "A server that is asked for more than it can do",
	Teaches: "A queue without a bound does not lose requests, it loses all of them: once more comes than can be done, " +
		"everybody waits longer than they are willing to, and the server is busy with answers that nobody reads. " +
		"A larger server only gets there later. A short queue and a quick no keep it at its capacity, whatever comes: " +
		"the queue need only be as long as what keeps the workers busy. Dropping what has waited too long is not " +
		"enough by itself, for much of what is served just in time is finished just too late.",
	Run: runOverload,
}

// The server of this experiment does 1,000 requests a second.
const (
	overloadWorkers = 10
	overloadService = 10 * time.Millisecond
	overloadTimeout = time.Second
	overloadFrom    = 20 // seconds: looked at from...
	overloadTo      = 80 // ...to

	unbounded = "queue without a bound"
)

// What may stand at the door. The first and the last two are ours.
var overloadDoors = []struct {
	name  string
	drawn bool
	new   func(s *sim.Sim) door
}{
	{"ours, oldest first", true, func(s *sim.Sim) door {
		return newGated(s, admission.Config{Limit: overloadWorkers})
	}},
	{unbounded, true, func(s *sim.Sim) door {
		return &line{sim: s, limit: overloadWorkers}
	}},
	{"queue of 10,000", false, func(s *sim.Sim) door {
		return &line{sim: s, limit: overloadWorkers, bound: 10_000}
	}},
	{"without a bound, drops who waited too long", true, func(s *sim.Sim) door {
		return &line{sim: s, limit: overloadWorkers, drop: over(overloadTimeout - overloadService)}
	}},
	{"queue of 100", false, func(s *sim.Sim) door {
		return &line{sim: s, limit: overloadWorkers, bound: 100}
	}},
	{"without a bound, CoDel", true, func(s *sim.Sim) door {
		return &line{sim: s, limit: overloadWorkers, drop: codel(s)}
	}},
	{"no queue at all", true, func(s *sim.Sim) door {
		return &line{sim: s, limit: overloadWorkers, bound: -1}
	}},
	{"ours, newest first", false, func(s *sim.Sim) door {
		return newGated(s, admission.Config{Limit: overloadWorkers, Order: admission.Milk})
	}},
}

// overloadRun is what a load came to.
type overloadRun struct {
	capacity float64 // requests a second that these workers could have done
	goodput  float64 // answers a second that came in time
	p99      float64 // of all answers, in ms
}

// share is the goodput, in percent of the capacity.
func (r overloadRun) share() float64 { return 100 * r.goodput / r.capacity }

// overloadBy sends a load, in percent of what the server can do, and looks at
// what comes of it from one second on.
func overloadBy(seed uint64, load float64, from, to int, at func(*sim.Sim) door) overloadRun {
	s := sim.New(seed)
	var jobs, work int64
	p := &pool{sim: s, workers: overloadWorkers, service: func() int64 {
		d := s.Exp(overloadService)
		jobs++
		work += d
		return d
	}}
	var good perSecond
	var took []int64
	c := &caller{sim: s, server: &guarded{at(s), p}, timeout: int64(overloadTimeout), over: func(_ *attempt, ok bool) {
		if ok {
			good.add(s.Now())
		}
	}}
	c.answered = func(d int64) {
		if s.Now() >= int64(from)*second {
			took = append(took, d)
		}
	}
	full := overloadWorkers / overloadService.Seconds()
	s.Poisson(sim.PerSecond(full*load/100), c.call)
	s.Run(int64(to) * second)
	return overloadRun{
		capacity: overloadWorkers * float64(jobs) / (float64(work) / float64(second)),
		goodput:  good.mean(from, to),
		p99:      float64(sim.Percentile(took, 0.99)) / float64(ms),
	}
}

// overloadFigures are what must hold of ours.
func overloadFigures(seed uint64) (figures []Figure) {
	for _, load := range []float64{150, 300, 1000} {
		run := overloadBy(seed, load, overloadFrom, overloadTo, overloadDoors[0].new)
		figures = append(figures,
			atLeast(fmt.Sprintf("overload, %.0f %% load: answers in time", load), run.share(), 99, "% of capacity"),
			atMost(fmt.Sprintf("overload, %.0f %% load: 99 %% are answered within", load), run.p99, 90, "ms"))
	}
	return figures
}

func runOverload(_ context.Context, o Options) (*Result, error) {
	result := &Result{Figures: overloadFigures(o.Seed)}
	table := Table{
		Title:   "10 workers, 10 ms on average, callers wait 1 s at most: what becomes of 1,500 and of 3,000 requests a second",
		Columns: []string{"at the door", "1,500/s: in time, per s", "99 % within, ms", "3,000/s: in time, per s", "99 % within, ms"},
	}
	for i, runs := range abreast(len(overloadDoors), func(i int) (runs [2]overloadRun) {
		for j, load := range []float64{150, 300} {
			runs[j] = overloadBy(o.Seed, load, overloadFrom, overloadTo, overloadDoors[i].new)
		}
		return runs
	}) {
		name := overloadDoors[i].name
		table.Add(name, runs[0].goodput, runs[0].p99, runs[1].goodput, runs[1].p99)
		if name == unbounded {
			result.Figures = append(result.Figures,
				atMost(name+", 150 % load: answers in time", runs[0].share(), 1, "% of capacity"),
				atMost(name+", 300 % load: answers in time", runs[1].share(), 1, "% of capacity"))
		}
	}
	result.Tables = append(result.Tables, table)

	good := draw.Picture{
		Name:  "overload-goodput",
		Title: "Answers in time, when more is asked than can be done",
		Says:  "Past its capacity a server with a long queue answers everybody too late. With a short one it goes on at capacity.",
		X:     draw.Axis{Label: "load, % of capacity", Log: true, Min: 25, Max: 1000},
		Y:     draw.Axis{Label: "answers within 1 s, per second", Min: 0, Max: 1100},
		Limits: []draw.Limit{
			{Name: "capacity", Y: 1000},
		},
	}
	late := draw.Picture{
		Name:   "overload-p99",
		Title:  "How long 99 % of the answers take, when more is asked than can be done",
		Says:   "What is not refused waits. Only a short queue answers fast under any load; after half a minute of too much a long one is up to half a minute behind.",
		X:      draw.Axis{Label: "load, % of capacity", Log: true, Min: 25, Max: 1000},
		Y:      draw.Axis{Label: "99 % of answers within, ms", Log: true, Min: 10, Max: 100_000},
		Limits: []draw.Limit{{Name: "callers\ngive up", Y: float64(overloadTimeout / time.Millisecond)}},
	}
	loads := []float64{25, 50, 75, 90, 100, 110, 125, 150, 200, 300, 400, 600, 800, 1000}
	for _, d := range overloadDoors {
		if !d.drawn {
			continue
		}
		goodput, p99 := draw.Series{Name: d.name}, draw.Series{Name: d.name}
		for i, run := range abreast(len(loads), func(i int) overloadRun { return overloadBy(o.Seed, loads[i], 20, 30, d.new) }) {
			goodput.Points = append(goodput.Points, draw.Point{X: loads[i], Y: run.goodput})
			p99.Points = append(p99.Points, draw.Point{X: loads[i], Y: run.p99})
		}
		good.Series = append(good.Series, goodput)
		late.Series = append(late.Series, p99)
	}
	result.Pictures = append(result.Pictures, good, late)
	return result, nil
}
