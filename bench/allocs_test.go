package bench

import (
	"flag"
	"math"
	"testing"
)

// allocations are what ours may allocate, once it is warm. Times differ between
// machines, these do not. Who makes one smaller writes it here; who makes one
// larger says why in the commit. What is made eight at a time is an eighth.
var allocations = map[string]float64{
	"Outbound/GET/polite":                              0.13,
	"Outbound/GET/polite, fixed rate":                  0.13,
	"Outbound/GET/polite, no AttemptTimeout":           0,
	"Outbound/GET, 8 header fields/polite":             0.13,
	"Outbound/POST 1 KiB/polite":                       6,
	"Outbound/GET failing twice/polite":                12.38,
	"Outbound/POST 1 KiB failing twice/polite":         22,
	"Parsing/no limit among 8 fields/polite":           0,
	"Parsing/429 with Retry-After/polite":              0,
	"Parsing/draft 11/polite":                          2,
	"Parsing/six fields as OpenAI sends/polite":        1,
	"Parts/breaker, success, 1 goroutine/polite":       0,
	"Parts/breaker, open/polite":                       1,
	"Parts/budget, a retry asks/polite":                0,
	"Decisions/hot key, 1 goroutine/polite":            0,
	"Decisions/hot key, refused/polite":                0,
	"Decisions/three limits at once/polite, three":     0,
	"Decisions/1e6 keys at random, 1 goroutine/polite": 0,
	"Handlers/admitted/polite":                         3,
	"Handlers/refused/polite":                          3,
}

// TestAllocations compares what ours allocates beyond the base of its question,
// where what ours adds is asked.
func TestAllocations(t *testing.T) {
	Small = true // few keys; what is measured is the same
	benchtime := flag.Lookup("test.benchtime")
	before := benchtime.Value.String()
	defer benchtime.Value.Set(before)
	if err := benchtime.Value.Set("2000x"); err != nil {
		t.Fatal(err)
	}
	left := len(allocations)
	for _, g := range Groups {
		for _, q := range g.Questions {
			base := 0.0
			for _, s := range q.Sides {
				name := g.Name + "/" + q.Name + "/" + s.Name
				if q.Added && s.Name == q.Base {
					base = perRun(s)
				}
				want, ok := allocations[name]
				if !ok {
					continue
				}
				left--
				if got := perRun(s) - base; got > want+0.1 { // warming up has its part
					t.Errorf("%s allocates %.2f times; it was %v", name, got, want)
				}
			}
		}
	}
	if left != 0 {
		t.Errorf("%d of %d names are of no question", left, len(allocations))
	}
}

// perRun is the least of three, since the runtime allocates now and then too.
func perRun(s Side) float64 {
	run, stop := s.Start()
	defer stop()
	least := math.Inf(1)
	for range 3 {
		r := testing.Benchmark(run)
		least = min(least, float64(r.MemAllocs)/float64(r.N))
	}
	return least
}
