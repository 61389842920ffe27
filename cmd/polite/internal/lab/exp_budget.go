package lab

import (
	"time"

	"github.com/politehttp/polite/internal/sim"
	"github.com/politehttp/polite/retry"
)

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
		sim: s, timeout: int64(time.Second), retries: 3, budget: b,
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
		over: func(_ int64, ok bool) {
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

// steady is what becomes of a share of failures that does not change.
func steady(seed uint64, b budget, share float64) *budgetRun {
	return runBudget(seed, b, func(int64) float64 { return share }, 120*time.Second, 240*time.Second)
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
