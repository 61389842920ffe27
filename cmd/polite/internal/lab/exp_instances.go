package lab

import (
	"context"
	"fmt"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/internal/sim"
)

var instances = Experiment{
	Name:  "instances",
	Title: "A limit of 100 a minute behind a load balancer",
	Teaches: "A limit that each instance counts by itself is as many limits as there are instances, and grows with each " +
		"one that is started. Dividing it among them keeps the sum, but then a caller whose connection sticks to one " +
		"instance gets a fraction. One state that all of them share is exact, however the calls are spread.",
	Run: runInstances,
}

// spread sends 1,000 requests within a minute to keys of a fixed window, one for
// each instance, and returns how many are admitted.
func spread(seed uint64, keys int, quota int64, sticky bool) (admitted int) {
	s := sim.New(seed)
	all := make([]key, keys)
	window := must(rule.NewFixedWindow(quota, minute, rule.ToClock))
	for i := range all {
		all[i].rule = window
	}
	for _, now := range every(minute/1000, 1000, 0) {
		s.At(now, func() {
			to := 0
			if !sticky {
				to = s.Rand.IntN(keys)
			}
			if all[to].take(s.Now()).Allowed() {
				admitted++
			}
		})
	}
	s.Run(minute)
	return admitted
}

func runInstances(_ context.Context, o Options) (*Result, error) {
	r := &Result{}
	table := Table{
		Title:   "1,000 requests of one caller within a minute, to 3 instances.",
		Columns: []string{"where the count is kept", "spread at random", "all to one instance"},
	}
	for _, each := range []struct {
		name                   string
		keys                   int
		quota                  int64
		random, sticky         float64
		randomName, stickyName string
	}{
		{"in each instance, 100 each", 3, 100, 300, 100, "3 memories of 100", ""},
		{"in each instance, a third (33) each", 3, 33, 99, 33, "", "a third each, all calls to one instance"},
		{"in one place, 100", 1, 100, 100, 100, "one shared count of 100", ""},
	} {
		random, sticky := spread(o.Seed, each.keys, each.quota, false), spread(o.Seed, each.keys, each.quota, true)
		table.Add(each.name, random, sticky)
		if each.randomName != "" {
			r.Figures = append(r.Figures, exactly("admitted by "+each.randomName, float64(random), each.random, ""))
		}
		if each.stickyName != "" {
			r.Figures = append(r.Figures, exactly("admitted by "+each.stickyName, float64(sticky), each.sticky, ""))
		}
	}
	r.Tables = append(r.Tables, table)

	own := draw.Series{Name: "counted in each instance", Kind: draw.Bars}
	shared := draw.Series{Name: "counted in one place", Kind: draw.Bars}
	var names []string
	for n := range 8 {
		own.Points = append(own.Points, draw.Point{X: float64(n), Y: float64(spread(o.Seed, n+1, 100, false))})
		shared.Points = append(shared.Points, draw.Point{X: float64(n), Y: float64(spread(o.Seed, 1, 100, false))})
		names = append(names, fmt.Sprint(n+1))
	}
	r.Pictures = append(r.Pictures, draw.Picture{
		Name:   "instances",
		Title:  "A limit of 100 a minute: what one caller gets through",
		Says:   "Each instance that is started adds a limit of its own.",
		X:      draw.Axis{Label: "instances behind the load balancer", Names: names},
		Y:      draw.Axis{Label: "admitted in a minute"},
		Series: []draw.Series{own, shared},
		Limits: []draw.Limit{{Name: "limit: 100", Y: 100}},
	})
	return r, nil
}
