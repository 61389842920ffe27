package lab

import (
	"context"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/rule"
)

var idle = Experiment{
	Name:  "idle",
	Title: "Many calls at once after silence, at one a second",
	Teaches: "A token bucket saves what silence did not use, up to its burst, and gives it out at once: good for people, " +
		"who come in bursts. A leaky queue earns nothing by waiting; it sends at an even pace, whatever came before: " +
		"good for a provider that minds bursts. Both keep the same rate over a long time. A leaky meter is a bucket " +
		"counted from the other side: it does not delay, it refuses.",
	Run: runIdle,
}

func runIdle(context.Context, Options) (*Result, error) {
	r := &Result{}
	table := Table{
		Title:   "15 calls at once, after a minute of silence; 1 a second, burst or queue of 10.",
		Columns: []string{"rule", "admitted", "most that leave in one second", "the last one leaves after, s", "refused"},
	}
	picture := draw.Picture{
		Name:  "idle",
		Title: "15 calls come at once after silence; the limit is one a second",
		Says:  "The token bucket gives out what it has saved. The leaky queue sends one a second.",
		X:     draw.Axis{Label: "time after they came, s", Min: -1, Max: 12},
		Y:     draw.Axis{Label: "calls that have left", Max: 12},
	}
	rules := []struct {
		name string
		rule *rule.Rule
	}{
		{"token bucket", must(rule.NewBucket(rule.TokenBucket, 1, second, 10))},
		{"leaky meter", must(rule.NewBucket(rule.LeakyMeter, 1, second, 10))},
		{"leaky queue", must(rule.NewBucket(rule.LeakyQueue, 1, second, 10))},
	}
	for _, each := range rules {
		leave := admitted(each.rule, every(0, 15, minute))
		most, _ := mostWithin(second, leave)
		last := leave[len(leave)-1] - minute
		table.Add(each.name, len(leave), most, last/second, 15-len(leave))
		switch each.rule.Kind() {
		case rule.TokenBucket:
			r.Figures = append(r.Figures, exactly("leave at once, token bucket", float64(most), 10, ""))
		case rule.LeakyQueue:
			r.Figures = append(
				r.Figures,
				exactly("leave in any second, leaky queue", float64(most), 1, ""),
				exactly("leave in the end, leaky queue", float64(len(leave)), 10, ""),
			)
		default:
			continue
		}
		steps := []draw.Point{{X: -1}}
		for i, at := range leave {
			steps = append(steps, draw.Point{X: seconds(at - minute), Y: float64(i + 1)})
		}
		picture.Series = append(picture.Series, draw.Series{
			Name: each.name, Kind: draw.Steps, Points: append(steps, draw.Point{X: 12, Y: float64(len(leave))}),
		})
	}
	r.Tables = append(r.Tables, table)
	r.Pictures = append(r.Pictures, picture)
	return r, nil
}
