package pacer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/observe"
)

// How well a rate is kept on the real clock, from the first departure to the
// last, beside x/time/rate's Wait with the same burst. Run it alone:
//
//	go test -run - -bench Pacing -benchtime 1x -count 3 ./pacer
//
// error-% is of the rate, by the callers' own stamps; over is how many units
// too many left in the worst interval, by the pacer's stamps for ours.
func BenchmarkPacing(b *testing.B) {
	for _, c := range []struct {
		rate int64
		span time.Duration
	}{{100, 30 * time.Second}, {1000, 3 * time.Second}, {10_000, 3 * time.Second}} {
		for _, callers := range []int{1, 16} {
			burst := max(2, c.rate/100)
			r := Per(c.rate, time.Second)
			b.Run(fmt.Sprintf("%d/callers=%d/polite", c.rate, callers), func(b *testing.B) {
				for b.Loop() {
					p := &Pacer{Rate: r, Burst: burst}
					measure(b, c.span, callers, r, burst, p.stamped)
				}
			})
			b.Run(fmt.Sprintf("%d/callers=%d/xtime", c.rate, callers), func(b *testing.B) {
				for b.Loop() {
					l := rate.NewLimiter(rate.Limit(c.rate), int(burst))
					measure(b, c.span, callers, r, burst, func(ctx context.Context) (time.Time, error) {
						err := l.Wait(ctx)
						return time.Now(), err
					})
				}
			})
		}
	}
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("leaky/1000/callers=%d", callers), func(b *testing.B) {
			for b.Loop() {
				p := &Pacer{Rate: Per(1000, time.Second), Shape: LeakyBucket}
				all := measure(b, 3*time.Second, callers, p.Rate, 1, p.stamped)
				short := 0.0
				for i := 1; i < len(all); i++ {
					short = max(short, float64(time.Millisecond-all[i].Sub(all[i-1])))
				}
				b.ReportMetric(short, "short-ns")
			}
		})
		b.Run(fmt.Sprintf("default-burst/1000/callers=%d", callers), func(b *testing.B) {
			for b.Loop() {
				p := &Pacer{Rate: Per(1000, time.Second)}
				measure(b, 3*time.Second, callers, p.Rate, 5, p.stamped)
			}
		})
	}
}

// stamped waits, and returns the pacer's own stamp.
func (p *Pacer) stamped(ctx context.Context) (at time.Time, err error) {
	ctx = observe.With(ctx, &observe.Hooks{Paced: func(_ context.Context, e observe.Paced) { at = e.At }})
	release, err := p.Wait(ctx, "k", 1)
	if err == nil {
		release()
	}
	return at, err
}

// measure lets callers go as fast as they may for a time, and reports.
func measure(b *testing.B, span time.Duration, callers int, r Rate, burst int64, wait func(context.Context) (time.Time, error)) []time.Time {
	ctx, cancel := context.WithTimeout(b.Context(), span)
	defer cancel()
	var mu sync.Mutex
	var all []time.Time
	var first, last time.Time
	n := -1.0
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				at, err := wait(ctx)
				if err != nil {
					return
				}
				now := time.Now()
				mu.Lock()
				all = append(all, at)
				if n++; n == 0 {
					first = now
				}
				last = now
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// The burst at the start is no error of the rate.
	got := (n - float64(burst-1)) / last.Sub(first).Seconds()
	b.ReportMetric(100*(got/r.perSecond()-1), "error-%")
	slices.SortFunc(all, time.Time.Compare) // callers come to the list in another order
	over := 0.0
	for i := 1; i <= len(all); i++ {
		for j := max(0, i-200); j < i; j++ {
			units := float64(i - j)
			can := float64(burst) + r.perSecond()*all[i-1].Sub(all[j]).Seconds()
			over = max(over, units-can)
		}
	}
	b.ReportMetric(math.Round(over*1e6)/1e6, "over")
	return all
}

// What a call costs that does not wait.
func BenchmarkWait(b *testing.B) {
	ctx := context.Background()
	for name, p := range map[string]*Pacer{
		"free":      {},
		"rate":      {Rate: Per(math.MaxInt32, time.Second)},
		"leaky":     {Rate: Per(math.MaxInt32, time.Second), Shape: LeakyBucket},
		"in-flight": {MaxInFlight: 1000},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				release, err := p.Wait(ctx, "https://api.example.com:443", 1)
				if err != nil {
					b.Fatal(err)
				}
				release()
			}
		})
	}
	b.Run("free, two keys", func(b *testing.B) {
		b.ReportAllocs()
		p := new(Pacer)
		for i := 0; b.Loop(); i++ {
			release, _ := p.Wait(ctx, [2]string{"https://a.example.com:443", "https://b.example.com:443"}[i&1], 1)
			release()
		}
	})
	b.Run("two pacers", func(b *testing.B) {
		b.ReportAllocs()
		p, q := &Pacer{Rate: Per(math.MaxInt32, time.Second)}, &Pacer{Rate: Per(math.MaxInt32, time.Second)}
		for b.Loop() {
			release, err := WaitAll(ctx, Claim{p, "a", 1}, Claim{q, "b", 1})
			if err != nil {
				b.Fatal(err)
			}
			release()
		}
	})
	b.Run("xtime", func(b *testing.B) {
		l := rate.NewLimiter(math.MaxInt32, 100)
		for b.Loop() {
			_ = l.Wait(ctx)
		}
	})
}

// What an answer costs that says nothing, and one that says a limit.
func BenchmarkObserve(b *testing.B) {
	now := time.Now()
	for name, s := range map[string]headerparse.Signal{
		"nothing": {Status: 200, By: -1},
		"limit":   limited(200, limit("", 100, 90, time.Minute)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			p := new(Pacer)
			release, _ := p.Wait(context.Background(), "k", 1)
			release()
			for b.Loop() {
				p.Observe("k", s, now)
			}
		})
	}
}
