// Compare prints, as Markdown, what this module and its peers need for the same
// work: medians of interleaved rounds, and medians of the ratios within a round.
// What is printed is also kept measurement by measurement, for benchstat.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/politehttp/polite/bench"
)

func main() {
	bench.ActAsLoad()
	rounds := flag.Int("rounds", 7, "rounds; each goes through all sides of a question once")
	each := flag.Duration("each", 100*time.Millisecond, "time for each measurement that is a loop")
	only := flag.String("run", "", "only the questions whose Group/Name this `regexp` matches")
	sides := flag.String("sides", "", "only the sides that this `regexp` matches; a question's base always")
	busy := flag.Bool("busy", false, "compare what the processors spent, for a machine on which something else runs")
	raw := flag.String("raw", filepath.Join("results", "raw.txt"), "`file` for all measurements")
	flag.DurationVar(&bench.PaceFor, "pace", bench.PaceFor, "time for each measurement of pacing")
	flag.Parse()
	if err := compare(*rounds, *each, *only, *sides, *raw, *busy); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(rounds int, each time.Duration, only, sides, raw string, busy bool) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	side, err := regexp.Compile(sides)
	if err != nil {
		return err
	}
	testing.Init()
	if err := flag.Set("test.benchtime", each.String()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(raw), 0o777); err != nil {
		return err
	}
	kept, err := os.Create(raw)
	if err != nil {
		return err
	}
	defer kept.Close()

	began := time.Now()
	for _, g := range bench.Groups {
		for _, q := range g.Questions {
			name := g.Name + "/" + q.Name
			if !wanted.MatchString(name) {
				continue
			}
			q.Sides = slices.DeleteFunc(slices.Clone(q.Sides), func(s bench.Side) bool {
				return s.Name != q.Base && !side.MatchString(s.Name)
			})
			if q.Metrics == nil {
				q.Metrics = []string{"ns/op", "allocs/op", "B/op", "CPU-ns/op"}
			}
			if busy {
				q.Metrics = processorFirst(q.Metrics)
			}
			fmt.Printf("\n### %s: %s\n\n", g.Name, q.Name)
			measure(name, q, rounds, kept).print(os.Stdout)
		}
	}
	fmt.Printf("\n%s, %s/%s, %d processors, %.0f minutes.\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), time.Since(began).Minutes())
	return nil
}

// processorFirst puts the time of the processors in the place of the time on the
// clock, or of what was done in a second.
func processorFirst(metrics []string) []string {
	i := slices.IndexFunc(metrics, func(m string) bool { return strings.Contains(m, "CPU") })
	if i < 0 || metrics[0] != "ns/op" && !strings.HasSuffix(metrics[0], "s/s") {
		return metrics
	}
	metrics = slices.Clone(metrics)
	processor := metrics[i]
	return slices.Insert(slices.Delete(metrics, i, i+1), 0, processor)
}

// table is what was measured: a figure for each metric, side and round.
type table struct {
	bench.Question
	figures map[string][][]float64
}

func measure(name string, q bench.Question, rounds int, raw io.Writer) table {
	if q.Rounds > 0 {
		rounds = min(rounds, q.Rounds)
	}
	t := table{q, make(map[string][][]float64)}
	for _, m := range q.Metrics {
		t.figures[m] = make([][]float64, len(q.Sides))
	}
	for range rounds {
		for i, s := range q.Sides {
			run, stop := s.Start()
			result := testing.Benchmark(run)
			stop()
			if result.N == 0 {
				fmt.Fprintf(os.Stderr, "compare: %s: %s failed\n", name, s.Name)
			}
			fmt.Fprintf(raw, "Benchmark%s\t%s\t%s\n", strings.ReplaceAll(name+"/"+s.Name, " ", "_"), result, result.MemString())
			for _, m := range q.Metrics {
				t.figures[m][i] = append(t.figures[m][i], figure(result, m))
			}
		}
	}
	return t
}

func figure(r testing.BenchmarkResult, metric string) float64 {
	if v, ok := r.Extra[metric]; ok {
		return v
	}
	switch {
	case r.N == 0:
		return math.NaN()
	case metric == "ns/op":
		return float64(r.T.Nanoseconds()) / float64(r.N)
	case metric == "allocs/op":
		return float64(r.MemAllocs) / float64(r.N) // AllocsPerOp rounds down
	case metric == "B/op":
		return float64(r.MemBytes) / float64(r.N)
	}
	return math.NaN()
}

// print has two columns of ratios: a side's figure to that of the base, and
// ours to the side's.
func (t table) print(w io.Writer) {
	main := t.Metrics[0]
	base, ours := t.index(t.Base), t.index("polite")
	header := slices.Clone(t.Metrics)
	if t.Added {
		header = slices.Insert(header, 1, "added")
	} else {
		header = append(header, "of "+t.Base)
	}
	header = append(header, "polite : this")
	fmt.Fprintf(w, "| side | %s |\n| --- |%s\n", strings.Join(header, " | "), strings.Repeat(" ---: |", len(header)))
	for i, s := range t.Sides {
		cells := []string{s.Name}
		for _, m := range t.Metrics {
			cells = append(cells, number(median(t.figures[m][i])))
		}
		if t.Added {
			cells = slices.Insert(cells, 2, number(median(t.figures[main][i])-median(t.figures[main][base])))
		} else {
			cells = append(cells, ratio(t.figures[main][i], t.figures[main][base], nil))
		}
		switch {
		case ours < 0 || t.Added && t.nothing(i, base):
			cells = append(cells, "")
		case t.Added:
			cells = append(cells, ratio(t.figures[main][ours], t.figures[main][i], t.figures[main][base]))
		default:
			cells = append(cells, ratio(t.figures[main][ours], t.figures[main][i], nil))
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

// nothing says whether what a side adds is too little to divide by.
func (t table) nothing(side, base int) bool {
	main := t.figures[t.Metrics[0]]
	return median(main[side]) < 1.2*median(main[base])
}

func (t table) index(name string) int {
	return slices.IndexFunc(t.Sides, func(s bench.Side) bool { return s.Name == name })
}

// ratio is the median over the rounds of a to b, both without less, unless nil.
func ratio(a, b, less []float64) string {
	ratios := make([]float64, 0, len(a))
	for i := range a {
		off := 0.0
		if less != nil {
			off = less[i]
		}
		ratios = append(ratios, (a[i]-off)/(b[i]-off))
	}
	m := median(ratios)
	if math.IsNaN(m) || math.IsInf(m, 0) {
		return ""
	}
	return fmt.Sprintf("%.2f", m)
}

func number(v float64) string {
	if near := math.Round(v); math.Abs(v-near) < 0.005 {
		v = near
	}
	switch {
	case math.IsNaN(v):
		return ""
	case v == math.Trunc(v) || math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.SortFunc(v, cmp.Compare)
	return v[len(v)/2]
}
