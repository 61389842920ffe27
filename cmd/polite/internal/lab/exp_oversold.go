package lab

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/internal/sim"
)

var oversold = Experiment{
	Name:  "oversold",
	Title: "Every client keeps to its limit, and the server falls over",
	Teaches: "Fair is not safe. Ten clients may make 100 calls a second each, and all do: that is 1,000, and the server can " +
		"do 400. Or 200,000 clients come once in some minutes, and no limit by key refuses any of them. What was sold " +
		"adds up to more than there is, as it nearly always does. A limit over all keys together keeps the server " +
		"well, for as long as somebody's guess of what it can do is right: when it gets slow it falls over at the same " +
		"number. A limit on how much is done at once needs no guess of a rate, for slow requests hold their places longer.",
	Run: runOversold,
}

const (
	oversoldWorkers = 4
	oversoldService = 10 * time.Millisecond // 400 requests a second
	oversoldFull    = 400
	oversoldGlobal  = 380 // a little under what the server can do
	oversoldSlow    = 60  // seconds: from then on everything takes twice as long
	oversoldEnd     = 120
	oversoldKeysMax = 200_000
)

// oversoldClients are who calls: each keeps to its own limit.
var oversoldClients = []struct {
	name string
	keys int
	each float64 // calls a second
	rule *rule.Rule
}{
	{"10 clients, 100 a second each", 10, 100, must(rule.NewBucket(rule.TokenBucket, 120, second, 120))},
	{"200,000 clients, 0.005 a second each", oversoldKeysMax, 0.005, must(rule.NewBucket(rule.TokenBucket, 1, second, 5))},
}

// oversoldGuards are what stands before the server.
var oversoldGuards = []struct {
	name         string
	global, gate bool
}{
	{"a limit for each key", false, false},
	{"and one for all together, 380/s", true, false},
	{"and a Gate (ours)", false, true},
}

// oversoldRun is what came of it.
type oversoldRun struct {
	good    perSecond
	byKey   int // refused by the limit of a key
	refused int // by the global one, or the Gate
	took    [2][]int64
}

func runOversoldCase(seed uint64, clients, guard int) *oversoldRun {
	who, how := oversoldClients[clients], oversoldGuards[guard]
	s := sim.New(seed)
	run := new(oversoldRun)
	mean := oversoldService
	s.At(oversoldSlow*second, func() { mean *= 2 })
	p := &pool{sim: s, workers: oversoldWorkers, service: func() int64 { return s.Exp(mean) }}
	at := door(&line{sim: s, limit: oversoldWorkers})
	if how.gate {
		at = newGated(s, admission.Config{Limit: oversoldWorkers})
	}
	global := key{rule: must(rule.NewBucket(rule.TokenBucket, oversoldGlobal, second, oversoldGlobal/20))}
	c := &caller{sim: s, server: &guarded{at, p}, timeout: second, over: func(_ *attempt, ok bool) {
		if ok {
			run.good.add(s.Now())
		}
	}, answered: func(took int64) {
		half := min(1, s.Now()/(oversoldSlow*second))
		run.took[half] = append(run.took[half], took)
	}, lost: func() { run.refused++ }}
	states := make([]rule.State, who.keys)
	s.Poisson(sim.PerSecond(float64(who.keys)*who.each), func() {
		i := s.Rand.IntN(who.keys)
		next, v := who.rule.Take(states[i], s.Now(), 1)
		if states[i] = next; !v.Allowed() {
			run.byKey++
			return
		}
		if how.global && !global.take(s.Now()).Allowed() {
			run.refused++
			return
		}
		c.tenant = strconv.Itoa(i)
		c.call()
	})
	s.Run(oversoldEnd * second)
	return run
}

func runOversold(_ context.Context, o Options) (*Result, error) {
	result := &Result{}
	for i, who := range oversoldClients {
		table := Table{
			Title: who.name + "; the server does 400 a second, and from 60 s on 200",
			Columns: []string{
				"limits", "refused by its own limit, %", "in time, per s: at 400/s", "99 % within, ms",
				"in time, per s: at 200/s", "99 % within, ms",
			},
		}
		picture := draw.Picture{
			Name:   "oversold",
			Title:  "Ten clients that all keep to their limits: answers in time",
			Says:   "The limits add up to 1,000 a second and the server does 400. One limit over all is right until the server gets slow.",
			X:      draw.Axis{Label: "time, s", Min: 0, Max: oversoldEnd},
			Y:      draw.Axis{Label: "answers within 1 s, per second", Min: 0, Max: 500},
			Limits: []draw.Limit{{Name: "capacity\nto 60 s", Y: oversoldFull}, {Name: "capacity\nfrom 60 s", Y: oversoldFull / 2}},
			Marks:  []draw.Mark{{Name: "the server gets slow", X: oversoldSlow}},
		}
		for j, run := range abreast(len(oversoldGuards), func(j int) *oversoldRun { return runOversoldCase(o.Seed, i, j) }) {
			how := oversoldGuards[j]
			fast, slow := run.good.mean(20, oversoldSlow), run.good.mean(oversoldSlow+20, oversoldEnd)
			table.Add(how.name, 100*float64(run.byKey)/(float64(who.keys)*who.each*oversoldEnd),
				fast, float64(sim.Percentile(run.took[0], 0.99))/float64(ms),
				slow, float64(sim.Percentile(run.took[1], 0.99))/float64(ms))
			picture.Series = append(picture.Series, draw.Series{Name: how.name, Points: run.good.points(oversoldEnd, 2)})
			name := fmt.Sprintf("oversold, %s, %s: in time", who.name, how.name)
			switch {
			case how.gate:
				result.Figures = append(result.Figures,
					atLeast(name, 100*fast/oversoldFull, 95, "% of capacity"),
					atLeast(name+", server slow", 200*slow/oversoldFull, 95, "% of capacity"))
			case how.global:
				result.Figures = append(result.Figures,
					atLeast(name, 100*fast/oversoldFull, 90, "% of capacity"),
					atMost(name+", server slow", 200*slow/oversoldFull, 10, "% of capacity"))
			default:
				result.Figures = append(result.Figures, atMost(name, 100*fast/oversoldFull, 10, "% of capacity"))
			}
		}
		result.Tables = append(result.Tables, table)
		if i == 0 {
			result.Pictures = append(result.Pictures, picture)
		}
	}
	return result, nil
}
