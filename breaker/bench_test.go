package breaker

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func BenchmarkClosed(b *testing.B) {
	for _, bc := range []struct {
		name string
		br   *Breaker
		now  time.Time
	}{
		{"run", &Breaker{}, time.Time{}},
		{"run and rate, now given", &Breaker{FailureRate: 0.5}, time.Now()},
		{"run and rate, now read", &Breaker{FailureRate: 0.5}, time.Time{}},
		{"slow calls", &Breaker{SlowCall: time.Minute}, time.Now()},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, open := bc.br.Open(host, bc.now); open {
					b.Fatal("open")
				}
				p, err := bc.br.Enter(host, bc.now)
				if err != nil {
					b.Fatal(err)
				}
				p.Done(Success, 0, bc.now)
			}
		})
	}
	b.Run("Acquire", func(b *testing.B) {
		b.ReportAllocs()
		var br Breaker
		for b.Loop() {
			done, err := br.Acquire(host)
			if err != nil {
				b.Fatal(err)
			}
			done(Success)
		}
	})
	b.Run("1000 keys", func(b *testing.B) {
		b.ReportAllocs()
		var br Breaker
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = "https://" + strconv.Itoa(i) + ".example.com:443"
		}
		for i := 0; b.Loop(); i++ {
			p, _ := br.Enter(keys[i%len(keys)], time.Time{})
			p.Done(Success, 0, time.Time{})
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		var br Breaker
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p, _ := br.Enter(host, time.Time{})
				p.Done(Success, 0, time.Time{})
			}
		})
	})
}

func BenchmarkFailing(b *testing.B) {
	b.ReportAllocs()
	br := &Breaker{Failures: -1, FailureRate: 0.9}
	now := time.Now()
	for i := 0; b.Loop(); i++ {
		p, _ := br.Enter(host, now)
		p.Done(Outcome(1+i%2), 0, now)
	}
}

func BenchmarkRefused(b *testing.B) {
	b.ReportAllocs()
	br := &Breaker{OpenFor: time.Hour, Failures: 1}
	now := time.Now()
	p, _ := br.Enter(host, now)
	p.Done(Failure, 0, now)
	for b.Loop() {
		if _, err := br.Enter(host, now); err == nil {
			b.Fatal("closed")
		}
	}
}

func TestClosedPathAllocatesNothing(t *testing.T) {
	for _, b := range []*Breaker{{}, {FailureRate: 0.5}, {UnreachableOnly: true, FailureRate: 0.5}} {
		do(t, b, host, Success)
		for _, now := range []time.Time{{}, time.Now()} {
			require.Zero(t, testing.AllocsPerRun(100, func() {
				b.Open(host, now)
				p, _ := b.Enter(host, now)
				p.Done(Success, 0, now)
			}))
		}
	}
}
