package bench

import (
	"runtime"
	"testing"
	"time"
)

// Question is one thing that is measured, of this module and of its peers.
type Question struct {
	Name    string
	Sides   []Side
	Base    string   // the side that the others are compared with
	Added   bool     // what a side adds to Base is compared, not the whole
	Metrics []string // what the table shows; the first is compared. Nil: ns/op, allocs/op, B/op, CPU-ns/op
	Rounds  int      // how many at most; zero: as many as are asked for
}

// Side is one subject of a question. Start sets it up for one round and returns
// what is measured, and what ends it.
type Side struct {
	Name  string
	Start func() (run func(*testing.B), stop func())
}

// Group is the questions of one benchmark.
type Group struct {
	Name      string
	Questions []Question
}

// Groups are all questions, in the order of the table.
var Groups = []Group{
	Outbound, Loopback, Uploads, Parsing, Parts, Pacing,
	Decisions, Memories, Redis, Handlers, Middlewares,
}

// Small makes each measurement as short as it can be: a look at whether it
// works. The figures then mean nothing.
var Small bool

// small is n, or with [Small] the other.
func small[T any](n, other T) T {
	if Small {
		return other
	}
	return n
}

// serial measures f in one goroutine.
func serial(f func()) func(*testing.B) {
	return func(b *testing.B) {
		b.ReportAllocs()
		before := processorTime()
		for b.Loop() {
			f()
		}
		reportCPU(b, before)
	}
}

// parallel measures the functions that worker makes, in n goroutines.
func parallel(n int, worker func() func()) func(*testing.B) {
	return func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(max(1, n/runtime.GOMAXPROCS(0)))
		before := processorTime()
		b.RunParallel(func(pb *testing.PB) {
			f := worker()
			for pb.Next() {
				f()
			}
		})
		reportCPU(b, before)
	}
}

// reportCPU reports what the processors spent an operation, the collector of
// garbage included. Other programs disturb it less than they do ns/op.
func reportCPU(b *testing.B, before time.Duration) {
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "CPU-ns/op")
}

// once measures f as a whole: each iteration is a measurement of its own, and
// the metrics are those of the last one.
func once(f func(b *testing.B)) func(*testing.B) {
	return func(b *testing.B) {
		for b.Loop() {
			f(b)
		}
	}
}

// always is a side that needs neither a set-up nor an end.
func always(name string, run func(*testing.B)) Side {
	return Side{name, func() (func(*testing.B), func()) { return run, func() {} }}
}

// must is for what only a mistake in a benchmark makes fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
