package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/sim"
	"github.com/politehttp/polite/retry"
)

var budgetExperiment = Experiment{
	Name:  "budget",
	Title: "What retries cost the provider, by what they are paid from",
	Teaches: "A retry helps against a failure that is gone by then. In an outage all calls fail, and four attempts each are " +
		"four times the load, on a provider that is down. A budget that every call feeds, or every call of the last " +
		"ten seconds, still adds a tenth or a fifth, for ever. One that only successes feed dries up in an outage: " +
		"the load is what it was, and what was saved before is not much more than one retry for each ten calls of " +
		"a second. And while one call in ten fails it pays for nearly all the retries that are needed.",
	Run: runBudgets,
}

// budgets are what retries may be paid from. All but ours are models of what
// others do, to compare with.
var budgets = []struct {
	name string
	new  func() budget
}{
	{"none", func() budget { return nil }},
	{"a tenth per call", func() budget { return &perCall{share: 0.1, most: 100, tokens: 100} }},
	{"a fifth of 10 s (Finagle)", func() budget { return &deposits{share: 0.2, floor: 10} }},
	{"half of the tokens (gRPC)", func() budget { return &halved{most: 100, ratio: 0.1, tokens: 100} }},
	{"ours", func() budget { return new(retry.Budget) }},
}

// perCall earns for each call, whether it succeeds or not.
type perCall struct{ share, most, tokens float64 }

func (b *perCall) Called(string, time.Time)    { b.tokens = min(b.most, b.tokens+b.share) }
func (b *perCall) Succeeded(string, time.Time) {}
func (b *perCall) Take(string, time.Time) bool {
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// deposits count for ten seconds, and so do the retries that they paid for;
// some retries are free.
type deposits struct {
	share, floor float64 // floor: free retries a second
	second       int64
	bins         [10]float64
}

func (b *deposits) pass(now time.Time) *float64 {
	second := now.Unix()
	for b.second = max(b.second, second-10); b.second < second; {
		b.second++
		b.bins[b.second%10] = 0
	}
	return &b.bins[second%10]
}

func (b *deposits) Called(_ string, now time.Time) { *b.pass(now) += b.share }
func (b *deposits) Succeeded(string, time.Time)    {}
func (b *deposits) Take(_ string, now time.Time) bool {
	bin := b.pass(now)
	sum := 10 * b.floor
	for _, n := range b.bins {
		sum += n
	}
	if sum < 1 {
		return false
	}
	*bin--
	return true
}

// halved allows retries while more than half of its tokens are left; a failure
// costs one, and a success brings little.
type halved struct{ most, ratio, tokens float64 }

func (b *halved) Called(string, time.Time)    {}
func (b *halved) Succeeded(string, time.Time) { b.tokens = min(b.most, b.tokens+b.ratio) }
func (b *halved) Take(string, time.Time) bool { return b.tokens > b.most/2 }
func (b *halved) failed()                     { b.tokens = max(0, b.tokens-1) }

// budgetRun makes 1,000 calls a second of up to four attempts, each of which
// fails with a probability that depends on the time.
type budgetRun struct {
	calls, succeeded, sent int
	retries                perSecond
}

func runBudget(seed uint64, b budget, fails func(now int64) float64, from, to time.Duration) *budgetRun {
	s := sim.New(seed)
	run := new(budgetRun)
	counted := func() bool { return s.Now() >= int64(from) }
	c := &caller{
		sim: s, retries: 3, budget: b,
		server: &distant{s, 5 * time.Millisecond, func(now int64) bool { return s.Rand.Float64() < fails(now) }},
		wait:   func(int) int64 { return s.Rand.Int64N(int64(20 * time.Millisecond)) },
		sent: func(n int) {
			if counted() {
				run.sent++
			}
			if n > 0 {
				run.retries.add(s.Now())
			}
		},
		over: func(_ *attempt, ok bool) {
			if counted() {
				run.calls++
				if ok {
					run.succeeded++
				}
			}
		},
	}
	if b, ok := b.(interface{ failed() }); ok {
		c.lost = b.failed
	}
	s.Poisson(sim.PerSecond(1000), c.call)
	s.Run(int64(to))
	return run
}

// load is how many attempts a call made.
func (r *budgetRun) load() float64    { return float64(r.sent) / float64(r.calls) }
func (r *budgetRun) success() float64 { return float64(r.succeeded) / float64(r.calls) }

// steady is what becomes of a share of failures that does not change, over as
// long a time as there is before it.
func steady(seed uint64, b budget, share float64, span time.Duration) *budgetRun {
	return runBudget(seed, b, func(int64) float64 { return share }, span, 2*span)
}

// outage is how many retries the first ten seconds of one bring.
func outage(seed uint64, b budget) float64 {
	run := runBudget(seed, b, func(now int64) float64 {
		if now >= int64(30*time.Second) {
			return 1
		}
		return 0
	}, 0, 40*time.Second)
	return 10 * run.retries.mean(30, 40)
}

// budgetFigures are what must hold of ours.
func budgetFigures(seed uint64) []Figure {
	mixed, down := steady(seed, new(retry.Budget), 0.1, 2*time.Minute), steady(seed, new(retry.Budget), 1, 2*time.Minute)
	return []Figure{
		atLeast("budget, one attempt in ten fails: calls that succeed", 100*mixed.success(), 98, "%"),
		atMost("budget, one attempt in ten fails: attempts for each call", mixed.load(), 1.1, ""),
		atMost("budget, all fail: attempts for each call", down.load(), 1.004, ""), // 1.00: a retry in ten seconds is left
		atMost("budget, first ten seconds of an outage: retries", outage(seed, new(retry.Budget)), 100, ""),
	}
}

func runBudgets(_ context.Context, o Options) (*Result, error) {
	result := &Result{Figures: budgetFigures(o.Seed)}
	table := Table{
		Title:   "1,000 calls a second of up to four attempts, each of which fails by lot",
		Columns: []string{"budget", "10 % fail: attempts a call", "succeed, %", "30 % fail: attempts a call", "succeed, %", "all fail: attempts a call", "first 10 s of an outage: retries"},
	}
	picture := draw.Picture{
		Name:   "budget",
		Title:  "Attempts for each call, against the share of attempts that fail",
		Says:   "Without a budget retries multiply the load when it hurts most (the line goes on to 4). Ours adds a tenth at most, and nothing in an outage.",
		X:      draw.Axis{Label: "attempts that fail, %", Min: 0, Max: 100},
		Y:      draw.Axis{Label: "attempts for each call", Min: 0.9, Max: 2},
		Limits: []draw.Limit{{Name: "1.1", Y: 1.1}},
	}
	shares := []float64{0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9, 1}
	for _, b := range budgets {
		runs := abreast(len(shares), func(i int) *budgetRun { return steady(o.Seed, b.new(), shares[i], 20*time.Second) })
		at := map[float64]*budgetRun{}
		series := draw.Series{Name: b.name}
		for i, run := range runs {
			at[shares[i]] = run
			series.Points = append(series.Points, draw.Point{X: 100 * shares[i], Y: run.load()})
		}
		picture.Series = append(picture.Series, series)
		table.Add(b.name, at[0.1].load(), 100*at[0.1].success(), at[0.3].load(), 100*at[0.3].success(), at[1].load(), fmt.Sprintf("%.0f", outage(o.Seed, b.new())))
		if b.name == "none" {
			result.Figures = append(result.Figures, atLeast("without a budget, all fail: attempts for each call", at[1].load(), 3.9, ""))
		}
	}
	result.Tables = append(result.Tables, table)
	result.Pictures = append(result.Pictures, picture)
	return result, nil
}
