package lab

import (
	"context"
	"strconv"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/internal/sim"
)

var boundary = Experiment{
	Name:  "boundary",
	Title: "200 clients that all wait for the same window to begin",
	Teaches: "Windows that begin with the clock's minute begin for everybody at once, and whoever was refused comes then. " +
		"A client can add jitter to the wait it was told. A provider can let each window begin at the caller's first " +
		"request, or shift it by a hash of the caller's key, which needs no memory; or it can use a bucket, which has " +
		"no edge at all. The work done is the same in all of them.",
	Run: runBoundary,
}

const (
	boundaryClients = 200
	boundaryFrom    = 2 * minute // what comes before settles
	boundaryUntil   = 7 * minute
)

// stampede lets clients, each with a limit of its own, do as much as they may: one
// call after the other, each of 100 ms, and when refused as long a wait as they
// are told and up to a share of it more. It returns when calls were made after
// the beginning has settled, and how many of them were admitted.
func stampede(seed uint64, r *rule.Rule, jitter float64) (calls []int64, admitted int) {
	s := sim.New(seed)
	for client := range boundaryClients {
		k := key{rule: r}
		shift := r.Shift("client " + strconv.Itoa(client))
		var call func()
		call = func() {
			now := s.Now()
			if now >= boundaryFrom {
				calls = append(calls, now-boundaryFrom)
			}
			v := k.take(now + shift)
			if v.Allowed() {
				if now >= boundaryFrom {
					admitted++
				}
				s.After(100*ms, call)
				return
			}
			// As retry.Policy adds to a told wait, and the pacer to a hold.
			s.After(v.Retry+int64(jitter*s.Rand.Float64()*float64(v.Retry)), call)
		}
		s.At(s.Rand.Int64N(minute), call)
	}
	s.Run(boundaryUntil)
	return calls, admitted
}

func runBoundary(_ context.Context, o Options) (*Result, error) {
	r := &Result{}
	table := Table{
		Title:   "200 clients, each with a limit of 10 a minute, call as often as they may for 5 minutes.",
		Columns: []string{"the provider's rule", "the client's jitter", "most calls in 100 ms", "admitted a minute"},
	}
	picture := draw.Picture{
		Name:  "boundary",
		Title: "200 clients wait for a window of one minute to begin",
		Says: "Aligned windows let all 200 in at the minute. Jitter of a tenth of the wait spreads them over some seconds, " +
			"windows of their own over the minute.",
		X: draw.Axis{Label: "time, s", Min: 50, Max: 130},
		Y: draw.Axis{Label: "calls in 100 ms", Max: 215},
	}
	toClock := must(rule.NewFixedWindow(10, minute, rule.ToClock))
	for _, each := range []struct {
		name, says string
		rule       *rule.Rule
		jitter     float64
		most       float64
		drawn      string
	}{
		{"window, to the clock", "none", toClock, 0, 0, "to the clock"},
		{"window, to the clock", "up to a tenth", toClock, 0.1, 100, "to the clock, clients with jitter"},
		{"window, to the first call", "none", must(rule.NewFixedWindow(10, minute, rule.ToFirst)), 0, 20, ""},
		{"window, to the clock per key", "none", must(rule.NewFixedWindow(10, minute, rule.ToClockPerKey)), 0, 20, "to the clock per key"},
		{"token bucket", "none", must(rule.NewBucket(rule.TokenBucket, 10, minute, 10)), 0, 20, ""},
	} {
		calls, admitted := stampede(o.Seed, each.rule, each.jitter)
		bins := binned(100*ms, boundaryUntil-boundaryFrom, calls)
		peak := 0
		for _, n := range bins {
			peak = max(peak, n)
		}
		table.Add(each.name, each.says, peak, admitted*int(minute)/int(boundaryUntil-boundaryFrom))
		name := "most in 100 ms, " + each.name
		if each.most == 0 {
			r.Figures = append(r.Figures, exactly(name, float64(peak), boundaryClients, ""))
		} else {
			if each.jitter > 0 {
				name += ", with jitter"
			}
			r.Figures = append(r.Figures, atMost(name, float64(peak), each.most, ""))
		}
		if each.drawn != "" {
			picture.Series = append(picture.Series, draw.Series{
				Name: each.drawn, Kind: draw.Bars, Width: 0.1, Plain: true, Points: histogram(100*ms, bins),
			})
		}
	}
	r.Tables = append(r.Tables, table)
	r.Pictures = append(r.Pictures, picture)
	return r, nil
}
