package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
)

// PaceFor is how long each measurement of [Pacing] lasts.
var PaceFor = 2 * time.Second

// Pacing asks how exactly calls leave. Stamps are taken by the callers as their
// wait returns, but for own-over, which is by the pacer's. A warm-up of a tenth
// is not counted.
var Pacing = Group{"Pacing", paces()}

// Pace makes calls wait. Burst is the most that its own settings let leave at
// once. Stamps, unless nil, are the instants of the grants by its own clock.
type Pace struct {
	Name string
	New  func(perSecond int) (wait func(), burst int, stamps func() []time.Time)
}

// Paces are the pacers that are compared. Ours and x/time may send bursts of a
// hundredth of a second, at least 2.
var Paces = []Pace{
	{"x/time", func(n int) (func(), int, func() []time.Time) {
		l := rate.NewLimiter(rate.Limit(n), max(2, n/100))
		return func() { l.Wait(context.Background()) }, l.Burst(), nil
	}},
	{"polite", politePace},
	{"x/time, burst 1", func(n int) (func(), int, func() []time.Time) {
		l := rate.NewLimiter(rate.Limit(n), 1)
		return func() { l.Wait(context.Background()) }, 1, nil
	}},
	{"uber", func(n int) (func(), int, func() []time.Time) {
		l := ratelimit.New(n)
		return func() { l.Take() }, 11, nil // a slack of 10, and the call itself
	}},
	{"uber, no slack", func(n int) (func(), int, func() []time.Time) {
		l := ratelimit.New(n, ratelimit.WithoutSlack)
		return func() { l.Take() }, 1, nil
	}},
	{"failsafe-go smooth", func(n int) (func(), int, func() []time.Time) {
		l := ratelimiter.NewSmooth[any](uint(n), time.Second)
		return func() { l.AcquirePermit(context.Background()) }, 1, nil
	}},
}

func politePace(n int) (func(), int, func() []time.Time) {
	p := &pacer.Pacer{Rate: pacer.Per(int64(n), time.Second), Burst: int64(max(2, n/100))}
	var mu sync.Mutex
	var stamps []time.Time
	ctx := observe.With(context.Background(), &observe.Hooks{Paced: func(_ context.Context, g observe.Paced) {
		mu.Lock()
		stamps = append(stamps, g.At)
		mu.Unlock()
	}})
	wait := func() {
		if release, err := p.Wait(ctx, "account", 1); err == nil {
			release()
		}
	}
	return wait, int(p.Burst), func() []time.Time { return stamps }
}

func paces() []Question {
	var questions []Question
	for _, n := range []int{100, 1_000, 10_000} {
		for _, callers := range []int{1, 16} {
			q := Question{
				Name: fmt.Sprintf("%d a second, callers %d", n, callers), Base: "x/time", Rounds: 5,
				Metrics: []string{"%-off", "%-rate", "µs-p50", "µs-p99", "in-1s", "over", "own-over", "µs-CPU"},
			}
			for _, p := range Paces {
				q.Sides = append(q.Sides, always(p.Name, once(func(b *testing.B) { pace(b, p, n, callers) })))
			}
			questions = append(questions, q)
		}
	}
	return questions
}

// pace reports how far the rate is off, how far the spacing of neighbours is, and
// the most that left in any second, also as what that is over burst and rate.
func pace(b *testing.B, p Pace, n, callers int) {
	length := small(PaceFor, 30*time.Millisecond)
	wait, burst, own := p.New(n)
	left := make([][]time.Time, callers)
	var done sync.WaitGroup
	began, cpu := time.Now(), processorTime()
	for i := range left {
		left[i] = make([]time.Time, 0, int(length.Seconds()*float64(n))+burst+1)
		done.Go(func() {
			for time.Since(began) < length {
				wait()
				left[i] = append(left[i], time.Now())
			}
		})
	}
	done.Wait()
	used := processorTime() - cpu
	all := slices.Concat(left...)
	slices.SortFunc(all, time.Time.Compare)
	b.ReportMetric(micros(used)/float64(len(all)), "µs-CPU")

	worst := most(all, time.Second)
	b.ReportMetric(float64(worst), "in-1s")
	b.ReportMetric(float64(max(0, worst-n-burst)), "over")
	if own != nil {
		stamps := own()
		slices.SortFunc(stamps, time.Time.Compare)
		b.ReportMetric(float64(max(0, most(stamps, time.Second)-n-burst)), "own-over")
	}

	for len(all) > 2 && all[0].Sub(began) < length/10 {
		all = all[1:]
	}
	took := all[len(all)-1].Sub(all[0])
	off := 100 * (float64(len(all)-1)/took.Seconds()/float64(n) - 1)
	b.ReportMetric(off, "%-rate")
	b.ReportMetric(math.Abs(off), "%-off")
	var spacing histogram
	for i, at := range all[1:] {
		spacing.add((at.Sub(all[i]) - time.Second/time.Duration(n)).Abs())
	}
	b.ReportMetric(micros(spacing.quantile(0.5)), "µs-p50")
	b.ReportMetric(micros(spacing.quantile(0.99)), "µs-p99")
}

// most is how many of the sorted instants lie in a half-open interval of d.
func most(at []time.Time, d time.Duration) int {
	worst, first := 0, 0
	for i, t := range at {
		for t.Sub(at[first]) >= d {
			first++
		}
		worst = max(worst, i-first+1)
	}
	return worst
}
