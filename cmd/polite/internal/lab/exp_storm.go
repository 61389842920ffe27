package lab

import (
	"context"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/sim"
	"github.com/politehttp/polite/retry"
)

var storm = Experiment{
	Name:  "storm",
	Title: "What retries add to the load of a provider that fails",
	Teaches: "Three retries help while one call in ten fails. When all fail they help nobody, and the provider gets four " +
		"times the load in the moment when it can bear least. Backoff changes when the retries come, not how many. A " +
		"budget that only successes fill does: it pays for nearly all retries while few are needed, and runs dry in " +
		"an outage.",
	Run: runStorm,
}

const (
	stormRate  = 1000        // calls a second
	stormFrom  = 20 * second // what a budget has at the beginning is spent
	stormUntil = 50 * second
	stormDrain = 2 * second // for retries of the last calls
)

// storming calls a provider of which each answer fails with a probability, and
// returns attempts a call, and the share of calls that succeeded.
func storming(seed uint64, failing float64, budget *retry.Budget) (load, success float64) {
	s := sim.New(seed)
	policy := &retry.Policy{Base: 10 * time.Millisecond, Cap: 10 * time.Millisecond}
	calls, attempts, succeeded := 0, 0, 0
	start := time.Unix(0, 0)
	s.Poisson(sim.PerSecond(stormRate), func() {
		counted := s.Now() >= stormFrom && s.Now() < stormUntil
		if counted {
			calls++
		}
		budget.Called("provider", start.Add(time.Duration(s.Now())))
		tries := 0
		var attempt func()
		attempt = func() {
			tries++
			if counted {
				attempts++
			}
			s.After(s.Exp(10*time.Millisecond), func() {
				now := start.Add(time.Duration(s.Now()))
				switch {
				case s.Rand.Float64() >= failing:
					budget.Succeeded("provider", now)
					if counted {
						succeeded++
					}
				case tries < 4 && budget.Take("provider", now):
					s.After(int64(policy.Jittered(tries, 0, s.Rand.Float64)), attempt)
				}
			})
		}
		attempt()
	})
	s.Run(stormUntil + stormDrain)
	return float64(attempts) / float64(calls), 100 * float64(succeeded) / float64(calls)
}

func runStorm(_ context.Context, o Options) (*Result, error) {
	r := &Result{}
	table := Table{
		Title: "A program makes 1,000 calls a second, with up to 3 retries each; every answer fails with the same probability.",
		Columns: []string{
			"answers that fail, %", "attempts a call, no retry", "no budget", "with a budget",
			"calls that succeed, no retry, %", "no budget, %", "with a budget, %",
		},
	}
	load := draw.Picture{
		Name:   "storm",
		Title:  "Load on the provider, in attempts a call",
		Says:   "Retries multiply the load of an outage by four. With a budget they add a tenth at most.",
		X:      draw.Axis{Label: "answers that fail, %", Max: 100},
		Y:      draw.Axis{Label: "attempts a call", Max: 4.2},
		Limits: []draw.Limit{{Name: "1.1 ×", Y: 1.1}},
	}
	success := draw.Picture{
		Name:  "storm-success",
		Title: "Calls that succeed in the end",
		Says:  "While few answers fail the budget costs next to nothing. When many fail, retries are no cure.",
		X:     load.X,
		Y:     draw.Axis{Label: "calls that succeed, %", Max: 105},
	}
	ways := []struct {
		name   string
		budget func() *retry.Budget
	}{
		{"without a budget", func() *retry.Budget { return retry.NoBudget }},
		{"with a budget", func() *retry.Budget { return new(retry.Budget) }},
	}
	loads, successes := make([]draw.Series, len(ways)), make([]draw.Series, len(ways))
	var without, worst, few float64
	none := draw.Series{Name: "no retry", Dashed: true}
	for _, percent := range []int{0, 5, 10, 20, 30, 50, 70, 90, 100} {
		f := float64(percent)
		var l, ok [2]float64
		for i, way := range ways {
			l[i], ok[i] = storming(o.Seed, f/100, way.budget())
			loads[i].Name, successes[i].Name = way.name, way.name
			loads[i].Points = append(loads[i].Points, draw.Point{X: f, Y: l[i]})
			successes[i].Points = append(successes[i].Points, draw.Point{X: f, Y: ok[i]})
		}
		none.Points = append(none.Points, draw.Point{X: f, Y: 100 - f})
		table.Add(percent, 1.0, l[0], l[1], 100-f, ok[0], ok[1])
		without, worst = l[0], max(worst, l[1])
		if percent == 10 {
			few = ok[1]
		}
	}
	load.Series, success.Series = loads, append(successes, none)
	r.Tables = append(r.Tables, table)
	r.Pictures = append(r.Pictures, load, success)
	r.Figures = append(
		r.Figures,
		between("attempts a call when all fail, without a budget", without, 3.99, 4.01, "×"),
		atMost("attempts a call with a budget, the most", worst, 1.10, "×"),
		atLeast("calls that succeed with a budget, 10 % failing", few, 98, "%"),
	)
	return r, nil
}
