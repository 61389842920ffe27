package lab

import (
	"context"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/rule"
)

var burst = Experiment{
	Name:  "burst",
	Title: "What gets through in one second when the limit is 10 a second",
	Teaches: "A limit of ten a second does not mean the same in every rule. A fixed window forgets all at its edge, so " +
		"a caller that comes just before and just after it gets twice the limit in one second. A token bucket gives " +
		"out what it has saved, and what it refills meanwhile. Only a log looks at every second there is; a sliding " +
		"counter comes close with two numbers, and a leaky queue delays instead of refusing. And 600 a minute is not " +
		"10 a second: around the edge of a minute 1,200 may come at once.",
	Run: runBurst,
}

// The rules, each with a limit of ten a second, and the most that get through
// in any second of the requests below.
var tenASecond = []struct {
	name string
	rule *rule.Rule
	most float64
}{
	{"fixed window", must(rule.NewFixedWindow(10, second, rule.ToClock)), 20},
	{"token bucket", must(rule.NewBucket(rule.TokenBucket, 10, second, 10)), 19},
	{"sliding counter", must(rule.NewSlidingCounter(10, second)), 11},
	{"sliding log", must(rule.NewSlidingLog(10, second)), 10},
	{"leaky queue", must(rule.NewBucket(rule.LeakyQueue, 10, second, 10)), 10},
}

func runBurst(context.Context, Options) (*Result, error) {
	r := &Result{}
	burstEdge(r)
	burstAtOnce(r)
	burstMinute(r)
	return r, nil
}

// burstEdge comes before and after the edge of a window.
func burstEdge(r *Result) {
	requests := append(every(10*ms, 20, 900*ms), every(25*ms, 60, 2*second)...)
	table := Table{
		Title:   "80 requests: 20 from 0.9 s on, every 10 ms; 60 from 2 s on, every 25 ms.",
		Columns: []string{"rule, 10 a second", "admitted", "most in any second", "the first one begins at, s"},
	}
	bars := draw.Series{Kind: draw.Bars}
	running := draw.Picture{
		Name:  "burst-running",
		Title: "What left within the second before, at each instant",
		Says: "20 requests come from 0.9 s on and 60 from 2 s on. The fixed window lets ten through before its edge at " +
			"1 s and ten right after it. The token bucket is full at 2 s, gives that out, and what it earns as well.",
		X:      draw.Axis{Label: "time, s", Min: 0.5, Max: 4.5},
		Y:      draw.Axis{Label: "requests within the last second", Max: 22},
		Limits: []draw.Limit{{Name: "limit: 10/s", Y: 10}},
	}
	var names []string
	for i, each := range tenASecond {
		leave := admitted(each.rule, requests)
		most, from := mostWithin(second, leave)
		table.Add(each.name, len(leave), most, seconds(from))
		r.Figures = append(r.Figures, exactly("most in any second, "+each.name, float64(most), each.most, ""))
		bars.Points = append(bars.Points, draw.Point{X: float64(i), Y: float64(most)})
		names = append(names, each.name)
		if k := each.rule.Kind(); k == rule.FixedWindow || k == rule.TokenBucket || k == rule.SlidingLog {
			running.Series = append(running.Series, draw.Series{
				Name: each.name, Kind: draw.Steps, Dashed: k == rule.SlidingLog, Points: within(second, leave),
			})
		}
	}
	r.Tables = append(r.Tables, table)
	r.Pictures = append(r.Pictures, draw.Picture{
		Name:   "burst",
		Title:  "A limit of 10 a second: the most that gets through in any one second",
		Says:   "The fixed window and the token bucket let nearly twice the limit through, the log never more than it says.",
		X:      draw.Axis{Names: names},
		Y:      draw.Axis{Label: "requests in one second"},
		Series: []draw.Series{bars},
		Limits: []draw.Limit{{Name: "limit: 10/s", Y: 10}},
	}, running)
}

// burstAtOnce has one short burst after silence.
func burstAtOnce(r *Result) {
	table := Table{
		Title:   "20 requests within 200 ms, after silence.",
		Columns: []string{"rule, 10 a second", "admitted", "refused", "the last one leaves after, ms"},
	}
	for _, each := range tenASecond {
		const from = 5 * second
		leave := admitted(each.rule, every(10*ms, 20, from))
		last := (leave[len(leave)-1] - from) / ms
		table.Add(each.name, len(leave), 20-len(leave), last)
		most := 10.0
		if each.rule.Kind() <= rule.LeakyQueue {
			most = 11 // one is earned meanwhile
		}
		r.Figures = append(r.Figures, exactly("of 20 in 200 ms, "+each.name, float64(len(leave)), most, ""))
	}
	r.Tables = append(r.Tables, table)
}

// burstMinute comes around the edge of a minute.
func burstMinute(r *Result) {
	requests := every(ms/4, 2400, minute-300*ms)
	table := Table{
		Title:   "2,400 requests within 600 ms, around the edge of a minute.",
		Columns: []string{"rule", "limit", "admitted", "most in any second"},
	}
	for _, each := range []struct {
		name, limit string
		rule        *rule.Rule
		most        float64 // 0: no figure
	}{
		{"fixed window", "600/min", must(rule.NewFixedWindow(600, minute, rule.ToClock)), 1200},
		{"token bucket", "600/min, burst 600", must(rule.NewBucket(rule.TokenBucket, 600, minute, 600)), 0},
		{"sliding log", "600/min", must(rule.NewSlidingLog(600, minute)), 600},
		{"fixed window", "10/s", must(rule.NewFixedWindow(10, second, rule.ToClock)), 20},
		{"token bucket", "10/s, burst 10", must(rule.NewBucket(rule.TokenBucket, 10, second, 10)), 0},
		{"sliding log", "10/s", must(rule.NewSlidingLog(10, second)), 10},
	} {
		leave := admitted(each.rule, requests)
		most, _ := mostWithin(second, leave)
		table.Add(each.name, each.limit, len(leave), most)
		if each.most > 0 {
			r.Figures = append(r.Figures, exactly("most in any second, "+each.name+" of "+each.limit, float64(most), each.most, ""))
		}
	}
	r.Tables = append(r.Tables, table)
}

// admitted returns when the requests that a rule lets through leave.
func admitted(r *rule.Rule, at []int64) (leave []int64) {
	k := key{rule: r}
	for _, now := range at {
		if v := k.take(now); v.Allowed() {
			leave = append(leave, now+v.Delay)
		}
	}
	return leave
}
