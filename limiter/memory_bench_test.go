package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// peer is what most programs do: a map of x/time/rate limiters behind a mutex.
type peer struct {
	mu    sync.Mutex
	m     map[string]*rate.Limiter
	limit rate.Limit
	burst int
}

func (p *peer) allow(key string) bool {
	p.mu.Lock()
	l := p.m[key]
	if l == nil {
		l = rate.NewLimiter(p.limit, p.burst)
		p.m[key] = l
	}
	p.mu.Unlock()
	return l.Allow()
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = string(appendBenchKey(nil, i))
	}
	return keys
}

const benchKeyLen = 20

func appendBenchKey(text []byte, i int) []byte {
	return strconv.AppendInt(append(text, "account:"...), 100_000_000_000+int64(i), 10)
}

// compare runs ours and theirs in turns, n times each in every round, and
// reports medians: one run, one machine, one temperature. Each goroutine has a
// function of its own.
func compare(b *testing.B, goroutines int, ours, theirs func() func()) {
	const rounds = 15
	n := max(b.N/rounds/goroutines, 1)
	run := func(worker func() func()) float64 {
		start := time.Now()
		work := func() {
			f := worker()
			for range n {
				f()
			}
		}
		if goroutines == 1 {
			work()
		} else {
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(work)
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

// BenchmarkMemory: a decision, of one by a map of x/time/rate limiters, for one
// key and for a million at random.
//
// Keys of the million last, or ours would have forgotten nearly all and have a
// small table to look into. They are made anew, some at a time, as each request
// brings its own: a map need not look at the bytes of a string that it holds.
func BenchmarkMemory(b *testing.B) {
	ctx := context.Background()
	for _, test := range []struct {
		keys  int
		rate  Rate
		burst int64
	}{
		{1, Per(1e6, time.Second), 1000},
		{1_000_000, Per(1, time.Hour), 1e6},
	} {
		limit := must(TokenBucket("bucket", test.rate, test.burst))
		names := benchKeys(test.keys)
		m := &Memory{}
		p := &peer{m: map[string]*rate.Limiter{}, limit: rate.Limit(float64(test.rate.Count) / test.rate.Per.Seconds()), burst: int(test.burst)}
		for _, k := range names {
			if d, err := m.Take(ctx, limit.Charge(k, 1)); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
			p.allow(k)
		}
		for _, goroutines := range []int{1, 64} {
			b.Run(fmt.Sprintf("keys=%d/goroutines=%d", test.keys, goroutines), func(b *testing.B) {
				compare(b, goroutines, func() func() {
					next := brought(names)
					return func() { _, _ = m.Take(ctx, limit.Charge(next(), 1)) }
				}, func() func() {
					next := brought(names)
					return func() { p.allow(next()) }
				})
			})
			if held := m.Stats().Keys; held != test.keys {
				b.Errorf("of %d keys %d are held", test.keys, held)
			}
		}
	}
}

// brought gives keys at random, of so many that there are; an only one itself.
func brought(names []string) func() string {
	if len(names) == 1 {
		return func() string { return names[0] }
	}
	var text []byte
	var made string
	return func() string {
		if made == "" {
			text = text[:0]
			for range 256 {
				text = appendBenchKey(text, rand.IntN(len(names)))
			}
			made = string(text)
		}
		next := made[:benchKeyLen]
		made = made[benchKeyLen:]
		return next
	}
}

// BenchmarkStack: three limits in one Take, of one limit; all are admitted.
func BenchmarkStack(b *testing.B) {
	ctx := context.Background()
	user := must(TokenBucket("user", Per(1e9, time.Second), 1e9))
	tenant := must(TokenBucket("tenant", Per(1e9, time.Second), 1e9))
	global := must(TokenBucket("global", Per(1e9, time.Second), 1e9))
	m := &Memory{}
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			compare(b, goroutines, func() func() {
				each := make([]Decision, 3)
				return func() {
					_, _ = m.TakeInto(ctx, each, user.Charge("u", 1), tenant.Charge("t", 1), global.Charge("", 1))
				}
			}, func() func() {
				return func() { _, _ = m.Take(ctx, user.Charge("u", 1)) }
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
