package lab

import (
	"context"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/rule"
)

var burst = Experiment{
	Name:  "burst",
	Title: "How many get through in one second when the limit is 10 a second",
	Teaches: "A limit of ten a second does not say the same in every rule. A fixed window forgets all at its edge, so a " +
		"caller that comes just before and just after gets twice the limit in one second. A token bucket adds what " +
		"it refills to what it had saved. Only the log counts every second there is, and a leaky queue delays " +
		"instead of refusing. And a limit of 600 a minute is no limit of ten a second: at the edge of a minute 1,200 " +
		"may come together.",
	Run: runBurst,
}

// The rules, each with a limit of ten a second.
var tenASecond = []struct {
	name string
	rule *rule.Rule
	most float64 // that may get through in any second, with the requests below
}{
	{"fixed window", must(rule.NewFixedWindow(10, second, rule.ToClock)), 20},
	{"token bucket", must(rule.NewBucket(rule.TokenBucket, 10, second, 10)), 19},
	{"sliding counter", must(rule.NewSlidingCounter(10, second)), 11},
	{"sliding log", must(rule.NewSlidingLog(10, second)), 10},
	{"leaky queue", must(rule.NewBucket(rule.LeakyQueue, 10, second, 10)), 10},
}

// every returns n instants, the first at from.
func every(gap int64, n int, from int64) (at []int64) {
	for i := range n {
		at = append(at, from+int64(i)*gap)
	}
	return at
}

// admitted returns when the requests that a rule lets through leave, and how
// many do so at once.
func admitted(r *rule.Rule, at []int64) (leave []int64) {
	k := key{rule: r}
	for _, now := range at {
		if v := k.take(now); v.Allowed() {
			leave = append(leave, now+v.Delay)
		}
	}
	return leave
}

func runBurst(context.Context, Options) (*Result, error) {
	requests := append(every(10*ms, 20, 900*ms), every(25*ms, 60, 2*second)...)
	result := &Result{}
	table := Table{
		Title:   "80 requests: 20 from 0.9 s, every 10 ms; 60 from 2 s, every 25 ms",
		Columns: []string{"rule, 10 a second", "admitted", "most in a second", "from, s"},
	}
	bars := draw.Series{Name: "most admitted in any one second", Kind: draw.Bars}
	var names []string
	for i, r := range tenASecond {
		leave := admitted(r.rule, requests)
		most, from := mostWithin(second, leave)
		table.Add(r.name, len(leave), most, float64(from)/float64(second))
		result.Figures = append(result.Figures, exactly("most in any second: "+r.name, float64(most), r.most, ""))
		bars.Points = append(bars.Points, draw.Point{X: float64(i), Y: float64(most)})
		names = append(names, r.name)
	}
	result.Tables = append(result.Tables, table)
	result.Pictures = append(result.Pictures, draw.Picture{
		Name:   "burst",
		Title:  "A limit of 10 a second: what one caller gets through in one second",
		Says:   "The fixed window and the token bucket let nearly twice the limit through.",
		X:      draw.Axis{Names: names},
		Y:      draw.Axis{Label: "requests in one second"},
		Series: []draw.Series{bars},
		Limits: []draw.Limit{{Name: "limit: 10/s", Y: 10}},
	})
	return result, nil
}
