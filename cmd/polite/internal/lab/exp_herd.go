package lab

import (
	"context"
	"math"
	"time"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/internal/sim"
	"github.com/politehttp/polite/retry"
)

var herd = Experiment{
	Name:  "herd",
	Title: "Clients that were refused together come back together",
	Teaches: "Who waits 1, 2, 4 seconds, because everybody does, meets everybody again. Exponential backoff alone moves " +
		"the herd, and makes it wait long; it does not break it up. A random wait between nothing and the backoff " +
		"(full jitter) does: fewest calls, and done in a fraction of the time. It is what retry.Policy does unless " +
		"told otherwise.",
	Run: runHerd,
}

// The ways to wait.
var waits = []struct {
	name   string
	policy *retry.Policy
	calls  float64 // published for 100 clients
	done   float64 // ms
	within float64 // of done
}{
	{"no backoff", &retry.Policy{Base: -1}, 2427, 2034, 0.1},
	{"exponential, no jitter", &retry.Policy{Base: 10 * time.Millisecond, Cap: 2 * time.Second, Jitter: retry.NoJitter}, 1850, 63452, 0.1},
	{"equal jitter", &retry.Policy{Base: 10 * time.Millisecond, Cap: 2 * time.Second, Jitter: retry.EqualJitter}, 812, 6643, 0.1},
	{"full jitter", &retry.Policy{Base: 10 * time.Millisecond, Cap: 2 * time.Second, Jitter: retry.FullJitter}, 797, 4974, 0.1},
	{"decorrelated jitter", &retry.Policy{Base: 5 * time.Millisecond, Cap: 2 * time.Second, Jitter: retry.DecorrelatedJitter}, 1002, 4577, 0.15}, // the published one cuts what it drew at the cap, this one the range it draws from
}

const (
	fullJitter   = 3 // in waits
	contendRuns  = 50
	contendN     = 100
	sweepRuns    = 4
	refusedN     = 200
	refusedUntil = 8 * second
)

func runHerd(_ context.Context, o Options) (*Result, error) {
	r := &Result{}
	herdContends(r, o.Seed)
	herdSweep(r, o.Seed)
	herdRefused(r, o.Seed)
	return r, nil
}

// contend lets clients update one row, each until it succeeds: it reads the
// row's version, and writes if the version is still the same. Messages take 10
// ms, with a deviation of 2. It returns how many writes there were, and when the
// last client was done. The model is that of "Exponential Backoff And Jitter" in
// the AWS Architecture Blog.
func contend(seed uint64, clients int, p *retry.Policy) (calls int, done int64) {
	s := sim.New(seed)
	version := 0
	net := func() int64 { return int64(math.Abs(s.Rand.NormFloat64()*2+10) * float64(ms)) }
	for range clients {
		tries, last := 0, time.Duration(0)
		var read func()
		read = func() {
			s.After(net(), func() {
				seen := version
				s.After(net()+net(), func() { // the answer, and the write
					calls++
					if version == seen {
						version++
						s.After(net(), func() { done = s.Now() })
						return
					}
					tries++
					last = p.Jittered(tries, last, s.Rand.Float64)
					s.After(net()+int64(last), read)
				})
			})
		}
		s.At(0, read)
	}
	s.Run(math.MaxInt64)
	return calls, done
}

// contended is the mean of some runs.
func contended(seed uint64, runs, clients int, p *retry.Policy) (calls, done float64) {
	for run := range runs {
		c, d := contend(seed*1000+uint64(run), clients, p)
		calls += float64(c) / float64(runs)
		done += float64(d) / float64(ms) / float64(runs)
	}
	return calls, done
}

func herdContends(r *Result, seed uint64) {
	table := Table{
		Title:   "100 clients update one row, and try again when another one was faster; mean of 50 runs.",
		Columns: []string{"wait between tries", "calls", "published", "all done after, ms", "published, ms"},
	}
	var full, most float64
	least := math.Inf(1)
	for i, w := range waits {
		calls, done := contended(seed, contendRuns, contendN, w.policy)
		table.Add(w.name, math.Round(calls), w.calls, math.Round(done), w.done)
		r.Figures = append(
			r.Figures,
			between("calls, "+w.name, calls, w.calls*0.95, w.calls*1.05, ""),
			between("all done, "+w.name, done, w.done*(1-w.within), w.done*(1+w.within), "ms"),
		)
		if i == fullJitter {
			full = calls
		} else {
			least = min(least, calls)
		}
		most = max(most, calls)
	}
	r.Tables = append(r.Tables, table)
	r.Figures = append(r.Figures, atMost("calls with full jitter, of the next best", 100*full/least, 100, "%"))
}

func herdSweep(r *Result, seed uint64) {
	picture := draw.Picture{
		Name:  "herd",
		Title: "Clients that contend for one row: how many calls they need",
		Says:  "Without backoff the work grows with the square of the clients. Backoff without jitter saves little.",
		X:     draw.Axis{Label: "clients", Max: 200},
		Y:     draw.Axis{Label: "calls until all have succeeded"},
	}
	for i, w := range waits {
		line := draw.Series{Name: w.name, Dashed: i == fullJitter, Points: []draw.Point{{}}}
		for n := 20; n <= 200; n += 20 {
			calls, _ := contended(seed, sweepRuns, n, w.policy)
			line.Points = append(line.Points, draw.Point{X: float64(n), Y: calls})
		}
		picture.Series = append(picture.Series, line)
	}
	r.Pictures = append(r.Pictures, picture)
}

// refused lets 200 clients call at once a provider that takes 20 a second, and
// returns when calls came and how many clients succeeded in four tries.
func refused(seed uint64, p *retry.Policy) (calls []int64, succeeded int) {
	s := sim.New(seed)
	provider := key{rule: must(rule.NewBucket(rule.TokenBucket, 20, second, 20))}
	for range refusedN {
		tries, last := 0, time.Duration(0)
		var call func()
		call = func() {
			calls = append(calls, s.Now())
			if provider.take(s.Now()).Allowed() {
				succeeded++
				return
			}
			if tries++; tries < 4 {
				last = p.Jittered(tries, last, s.Rand.Float64)
				s.After(int64(last), call)
			}
		}
		s.At(0, call)
	}
	s.Run(refusedUntil)
	return calls, succeeded
}

func herdRefused(r *Result, seed uint64) {
	table := Table{
		Title:   "200 clients call at once; the provider takes 20 a second; each tries 4 times.",
		Columns: []string{"wait between tries", "calls", "most in 100 ms, after the first", "clients that succeeded"},
	}
	picture := draw.Picture{
		Name:  "herd-waves",
		Title: "200 clients are refused together at 0 s: when they call again",
		Says: "Without jitter the herd comes back as one at 1, 3 and 7 s, and most of it is refused each time. " +
			"Full jitter spreads it.",
		X: draw.Axis{Label: "time, s", Max: seconds(refusedUntil)},
		Y: draw.Axis{Label: "calls in 100 ms"},
	}
	for _, w := range []struct {
		name   string
		jitter retry.Jitter
	}{{"no jitter", retry.NoJitter}, {"full jitter", retry.FullJitter}} {
		p := &retry.Policy{Base: time.Second, Cap: 10 * time.Second, Jitter: w.jitter}
		calls, succeeded := refused(seed, p)
		bins := binned(100*ms, refusedUntil, calls)
		peak := 0
		for _, n := range bins[1:] {
			peak = max(peak, n)
		}
		table.Add(w.name, len(calls), peak, succeeded)
		if w.jitter == retry.NoJitter {
			waves := bins[10] + bins[30] + bins[70]
			r.Figures = append(r.Figures,
				exactly("retries at 1, 3 and 7 s, no jitter", 100*float64(waves)/float64(len(calls)-refusedN), 100, "%"),
				exactly("come back together, no jitter", float64(peak), 180, ""))
		} else {
			r.Figures = append(r.Figures, atMost("most in 100 ms, full jitter", float64(peak), 45, ""))
		}
		picture.Series = append(picture.Series, draw.Series{
			Name: w.name, Kind: draw.Bars, Width: 0.1, Plain: true, Points: histogram(100*ms, bins),
		})
	}
	r.Tables = append(r.Tables, table)
	r.Pictures = append(r.Pictures, picture)
}
