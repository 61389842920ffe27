// Compare prints, as Markdown, what the clients cost over the bare base: medians
// of interleaved rounds, and the ratio of polite to each peer.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/politehttp/polite/bench"
)

func main() {
	rounds := flag.Int("rounds", 7, "rounds; each goes through all stacks once")
	each := flag.Duration("each", 100*time.Millisecond, "time for each measurement")
	flag.Parse()
	testing.Init()
	if err := flag.Set("test.benchtime", each.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, q := range bench.Questions {
		compare(q, *rounds)
	}
	fmt.Printf("\n### Upload of 64 MiB with GetBody, two failures first\n\n| client | peak heap growth, MiB |\n| --- | ---: |\n")
	for _, s := range bench.Uploaders {
		peak, err := bench.Upload(s)
		if err != nil {
			fmt.Printf("| %s | %v |\n", s.Name, err)
			continue
		}
		fmt.Printf("| %s | %.1f |\n", s.Name, float64(peak)/(1<<20))
	}
}

func compare(q bench.Question, rounds int) {
	stacks := bench.StacksFor(q)
	ns := make([][]float64, len(stacks))
	allocs := make([]int64, len(stacks))
	ratios := make([][]float64, len(stacks)) // of polite's added cost to this stack's, a round
	for range rounds {
		for i, s := range stacks {
			result := measure(q, s)
			ns[i] = append(ns[i], float64(result.T.Nanoseconds())/float64(result.N))
			allocs[i] = result.AllocsPerOp()
		}
		round := len(ns[0]) - 1
		for i := range stacks {
			ratios[i] = append(ratios[i], (ns[1][round]-ns[0][round])/(ns[i][round]-ns[0][round]))
		}
	}
	fmt.Printf("\n### %s\n\n| client | ns | added | allocs added | polite's added cost to this |\n| --- | ---: | ---: | ---: | ---: |\n", q.Name)
	for i, s := range stacks {
		ratio := "-"
		if i > 0 {
			ratio = fmt.Sprintf("%.2f", median(ratios[i]))
		}
		fmt.Printf("| %s | %.0f | %+.0f | %d | %s |\n", s.Name, median(ns[i]), median(ns[i])-median(ns[0]), allocs[i]-allocs[0], ratio)
	}
}

func measure(q bench.Question, s bench.Stack) testing.BenchmarkResult {
	rt, r := s.Over(q.Base()), q.Request()
	return testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := bench.Call(rt, r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
