package rule

import "testing"

var sink Verdict

func BenchmarkTake(b *testing.B) {
	const second = 1_000_000_000
	made := func(r *Rule, err error) *Rule {
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	for _, bench := range []struct {
		name string
		rule *Rule
	}{
		{"token 1e6 a second", made(NewBucket(TokenBucket, 1_000_000, second, 1_000_000))},
		{"token 7 per 11 min", made(NewBucket(TokenBucket, 7, 660*second, 1000))},
		{"queue 100 a second", made(NewBucket(LeakyQueue, 100, second, 100))},
		{"fixed window", made(NewFixedWindow(100, second, ToClock))},
		{"sliding counter", made(NewSlidingCounter(100, second))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var s State
			now := int64(1_790_000_000_000_000_000)
			for b.Loop() {
				now += 50
				s, sink = bench.rule.Take(s, now, 1)
			}
		})
	}
}
