package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// peer is what most programs do: a map of x/time/rate limiters behind a mutex.
type peer struct {
	mu sync.Mutex
	m  map[string]*rate.Limiter
}

func (p *peer) allow(key string) bool {
	p.mu.Lock()
	l := p.m[key]
	if l == nil {
		l = rate.NewLimiter(1e6, 1000)
		p.m[key] = l
	}
	p.mu.Unlock()
	return l.Allow()
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("account:%012d", i) // 20 characters
	}
	return keys
}

// compare runs ours and theirs in turns, n times each in every round, and
// reports medians: one run, one machine, one temperature.
func compare(b *testing.B, goroutines int, ours, theirs func(i int)) {
	const rounds = 15
	n := max(b.N/rounds/goroutines, 1)
	run := func(f func(int)) float64 {
		start := time.Now()
		if goroutines == 1 {
			for i := range n {
				f(i)
			}
		} else {
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for i := range n {
						f(g*n + i)
					}
				})
			}
			wg.Wait()
		}
		return float64(time.Since(start)) / float64(n*goroutines)
	}
	run(ours)
	run(theirs)
	var a, c, ratio []float64
	for range rounds {
		x, y := run(ours), run(theirs)
		a, c, ratio = append(a, x), append(c, y), append(ratio, x/y)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(a), "ours-ns")
	b.ReportMetric(median(c), "theirs-ns")
	b.ReportMetric(median(ratio), "ratio")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// BenchmarkMemory: a decision, of one by a map of x/time/rate limiters.
func BenchmarkMemory(b *testing.B) {
	ctx := context.Background()
	limit := must(TokenBucket("bucket", Per(1e6, time.Second), 1000))
	for _, keys := range []int{1, 1_000_000} {
		names := benchKeys(keys)
		order := make([]int32, 1<<20)
		for i := range order {
			order[i] = rand.Int32N(int32(keys))
		}
		m, p := &Memory{}, &peer{m: map[string]*rate.Limiter{}}
		for _, k := range names {
			if d, err := m.Take(ctx, limit.Charge(k, 1)); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
			p.allow(k)
		}
		for _, goroutines := range []int{1, 64} {
			b.Run(fmt.Sprintf("keys=%d/goroutines=%d", keys, goroutines), func(b *testing.B) {
				compare(b, goroutines, func(i int) {
					_, _ = m.Take(ctx, limit.Charge(names[order[i&(1<<20-1)]], 1))
				}, func(i int) {
					p.allow(names[order[i&(1<<20-1)]])
				})
			})
		}
	}
}

// BenchmarkStack: three limits in one Take, of one limit; all are admitted.
func BenchmarkStack(b *testing.B) {
	ctx := context.Background()
	user := must(TokenBucket("user", Per(1e9, time.Second), 1e9))
	tenant := must(TokenBucket("tenant", Per(1e9, time.Second), 1e9))
	global := must(TokenBucket("global", Per(1e9, time.Second), 1e9))
	m := &Memory{}
	var each [3]Decision
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			compare(b, goroutines, func(int) {
				if goroutines == 1 {
					_, _ = m.TakeInto(ctx, each[:], user.Charge("u", 1), tenant.Charge("t", 1), global.Charge("", 1))
					return
				}
				var each [3]Decision
				_, _ = m.TakeInto(ctx, each[:], user.Charge("u", 1), tenant.Charge("t", 1), global.Charge("", 1))
			}, func(int) {
				_, _ = m.Take(ctx, user.Charge("u", 1))
			})
		})
	}
}

// BenchmarkTake is one decision alone, for profiles.
func BenchmarkTake(b *testing.B) {
	ctx := context.Background()
	for _, l := range []*Limit{
		must(TokenBucket("token_bucket", Per(1e6, time.Second), 1000)),
		must(LeakyQueue("leaky_queue", Per(1e6, time.Second), 1000)),
		must(FixedWindow("fixed_window", 1000, time.Second, ToClock)),
		must(SlidingCounter("sliding_counter", 1000, time.Second)),
		must(Quota("calendar", 1e6, Day, nil)),
		must(SlidingLog("sliding_log", 1000, time.Second)),
		must(SlidingBuckets("sliding_buckets", 1000, time.Second, 10)),
	} {
		b.Run(l.Name(), func(b *testing.B) {
			b.ReportAllocs()
			m := &Memory{}
			for b.Loop() {
				_, _ = m.Take(ctx, l.Charge("account:000000000001", 1))
			}
		})
	}
	b.Run("new keys", func(b *testing.B) {
		b.ReportAllocs()
		l := must(TokenBucket("token_bucket", Per(1, time.Hour), 1000))
		names := benchKeys(1 << 20)
		m := &Memory{}
		var n atomic.Int64
		for b.Loop() {
			if n.Add(1)&(1<<20-1) == 0 {
				b.StopTimer()
				m = &Memory{}
				b.StartTimer()
			}
			_, _ = m.Take(ctx, l.Charge(names[n.Load()&(1<<20-1)], 1))
		}
	})
}

// BenchmarkSlowest: the decision of which one in 10,000 is slower, while keys
// come, are swept and make tables grow, and while a flood is forgotten.
func BenchmarkSlowest(b *testing.B) {
	names := benchKeys(1_000_000)
	ctx := context.Background()
	for _, life := range []time.Duration{time.Hour, 100 * time.Millisecond} {
		b.Run(fmt.Sprint("keys that live ", life), func(b *testing.B) {
			l := must(TokenBucket("bucket", Per(1, life), 1))
			var took []time.Duration
			for range b.N {
				m := &Memory{}
				took = make([]time.Duration, 0, len(names))
				for _, key := range names {
					start := time.Now()
					_, _ = m.Take(ctx, l.Charge(key, 1))
					took = append(took, time.Since(start))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
			b.ReportMetric(float64(took[len(took)*9999/10000])/1e3, "p99.99-us")
			b.ReportMetric(float64(took[len(took)-1])/1e3, "worst-us")
		})
	}
}
