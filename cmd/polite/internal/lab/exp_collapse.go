package lab

import (
	"context"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/sim"
	"github.com/politehttp/polite/retry"
)

var collapse = Experiment{
	Name:  "collapse",
	Title: "A server that stands still for ten seconds, and never comes back",
	Teaches: "This server has been well all day, at 93 % of what it can do. It stands still for ten seconds, and then is " +
		"as fast as before; but by then its queue is ten seconds long, its callers give up after one, and each tries " +
		"once more. So it does twice the work, all of it for callers who are gone, for ever: the failure outlives its " +
		"cause. Jitter moves the retries and takes none away. A budget takes them away, and then the queue needs " +
		"minutes to drain. Dropping what is too old is not enough while retries keep the queue full. A short queue at " +
		"the server's door forgets the past at once, with no help from the callers; budget and dropping together do " +
		"it in seconds.",
	Run: runCollapse,
}

const (
	collapseLoad    = 280 // calls a second; the server does 300
	collapseWorkers = 3
	collapseService = 10 * time.Millisecond
	collapseTimeout = time.Second
	collapseFrom    = 30 // seconds: the server stands still from...
	collapseTo      = 40 // ...to
	collapseEnd     = 240
)

var (
	atOnce = func(*sim.Sim) func(int) int64 { return nil }
	soon   = func(s *sim.Sim) func(int) int64 { // as most programs do
		return func(int) int64 { return 10*ms + s.Rand.Int64N(100*ms) }
	}
	jittered = func(s *sim.Sim) func(int) int64 { // as ours do
		var p retry.Policy
		return func(n int) int64 { return int64(p.Jittered(n, 0, s.Rand.Float64)) }
	}

	free    = func() budget { return nil }
	ourOwn  = func() budget { return new(retry.Budget) }
	queueUp = func(s *sim.Sim) door { return &line{sim: s, limit: collapseWorkers} }
	dropOld = func(s *sim.Sim) door {
		return &line{sim: s, limit: collapseWorkers, drop: over(collapseTimeout)}
	}
	ourGate = func(s *sim.Sim) door {
		return newGated(s, admission.Config{Limit: collapseWorkers})
	}
)

// What callers and the server do about it.
var collapseCases = []struct {
	name   string
	drawn  bool
	wait   func(*sim.Sim) func(int) int64
	budget func() budget
	door   func(*sim.Sim) door
}{
	{"nothing", true, atOnce, free, queueUp},
	{"jitter", false, jittered, free, queueUp},
	{"drop who waited too long", true, soon, free, dropOld},
	{"retry budget", true, soon, ourOwn, queueUp},
	{"retry budget, and drop", true, soon, ourOwn, dropOld},
	{"bounded queue", true, soon, free, ourGate},
	{"retry budget, and bounded queue", false, soon, ourOwn, ourGate},
}

const (
	collapseNothing = 0
	collapseBudget  = 4
	collapseGate    = 5
)

// collapseRun is what came of one case.
type collapseRun struct {
	calls, helped perSecond // that began then, and of which so many succeeded
	sent, good    perSecond // attempts and answers then
}

// recovery is how many seconds after the server was well its callers were: of
// those that began in three seconds on end at least nine in ten calls succeeded.
// -1: never.
func (r *collapseRun) recovery() float64 {
	return r.helped.recovered(collapseTo, func(second int) bool { return r.helped[second] >= 0.9*r.calls[second] })
}

func runCollapseCase(seed uint64, which int) *collapseRun {
	how := collapseCases[which]
	s := sim.New(seed)
	p := &pool{
		sim: s, workers: collapseWorkers, service: exponential(s, collapseService),
		stall: [2]int64{collapseFrom * second, collapseTo * second},
	}
	run := new(collapseRun)
	c := &caller{
		sim: s, server: &guarded{how.door(s), p}, timeout: int64(collapseTimeout), retries: 1,
		wait: how.wait(s), budget: how.budget(),
		sent: func(int) { run.sent.add(s.Now()) },
		over: func(a *attempt, ok bool) {
			if ok {
				run.good.add(s.Now())
				run.helped.add(a.call)
			}
		},
	}
	s.Poisson(sim.PerSecond(collapseLoad), func() {
		run.calls.add(s.Now())
		c.call()
	})
	s.Run(collapseEnd * second)
	return run
}

// collapseFigures are what must hold of ours.
func collapseFigures(seed uint64) []Figure {
	since := func(which int) float64 {
		if r := runCollapseCase(seed, which).recovery(); r >= 0 {
			return r
		}
		return collapseEnd
	}
	return []Figure{
		atMost("collapse, bounded queue: well again after", since(collapseGate), 2, "s"),
		atMost("collapse, retry budget and drop: well again after", since(collapseBudget), 15, "s"),
	}
}

func runCollapse(_ context.Context, o Options) (*Result, error) {
	result := &Result{Figures: collapseFigures(o.Seed)}
	runs := abreast(len(collapseCases), func(i int) *collapseRun { return runCollapseCase(o.Seed, i) })
	table := Table{
		Title: "280 calls a second, one retry, timeout 1 s; the server does 300 and stands still from 30 s to 40 s",
		Columns: []string{
			"what is done about it", "well again after, s",
			"answers in time, per s: before", "40 to 50 s", "60 to 90 s", "210 to 240 s", "attempts, per s: 60 to 90 s",
		},
	}
	picture := draw.Picture{
		Name:  "collapse",
		Title: "Answers in time, before and after a server stood still for ten seconds",
		Says: "The server is well from 40 s on. Without protection its callers never notice, and with a budget for their " +
			"retries alone only after two minutes. With a bounded queue they are served at once again. (Means of 4 s.)",
		X:      draw.Axis{Label: "time, s", Min: 0, Max: collapseEnd},
		Y:      draw.Axis{Label: "answers within 1 s, per second"},
		Limits: []draw.Limit{{Name: "calls: 280/s", Y: collapseLoad}},
		Marks:  []draw.Mark{{X: collapseFrom}, {Name: "stands still", X: collapseTo}},
	}
	for i, run := range runs {
		how := collapseCases[i]
		after := any("never")
		if r := run.recovery(); r >= 0 {
			after = int(r)
		}
		table.Add(how.name, after, run.good.mean(5, collapseFrom), run.good.mean(40, 50), run.good.mean(60, 90), run.good.mean(210, 240), run.sent.mean(60, 90))
		if how.drawn {
			picture.Series = append(picture.Series, draw.Series{Name: how.name, Points: run.good.points(collapseEnd, 4)})
		}
	}
	result.Tables = append(result.Tables, table)
	result.Pictures = append(result.Pictures, picture)
	result.Figures = append(result.Figures,
		atMost("nothing done: answers in time, 200 s later", runs[collapseNothing].good.mean(210, 240), 1, "per s"))
	return result, nil
}
