package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// What is promised.
const (
	leastKept = 0.95 // of the capacity, with the Gate
	mostLeft  = 0.20 // and what is left of it without, in the second half
)

// mostWait is the longest that all but one in a hundred of those who are served
// may take.
func mostWait(o *options) time.Duration { return 2*o.wait + takes }

// report writes a table with a line for each run, and how it went by the second.
func report(out io.Writer, o *options, all []*trial) {
	line := func(cells ...any) {
		text := fmt.Sprintf("  %-12s %9s %8s %8s %8s %8s %8s %8s %9s %8s", cells...)
		fmt.Fprintln(out, strings.TrimRight(text, " "))
	}
	line("", "capacity", "sent", "served", "refused", "gave up", "served", "of the", "median", "99 %")
	line("", "", "", "", "", "", "", "capacity", "took", "took")
	fmt.Fprintln(out)
	for i, t := range all {
		name := "no Gate"
		if t.gate {
			name = fmt.Sprintf("Gate, %d", i)
		}
		line(name, rate(t.capacity), count(t.Sent), count(t.Served), count(t.Refused), count(t.TimedOut),
			rate(t.goodput()), percent(t.of(t.goodput())), milliseconds(t.percentile(50)), milliseconds(t.percentile(99)))
	}
	fmt.Fprintf(out, "\nServed in each second:\n\n")
	for i, t := range all {
		if i > 1 {
			break
		}
		name := "no Gate"
		if t.gate {
			name = "Gate, 1"
		}
		fmt.Fprintf(out, "  %-12s", name)
		for s, second := range t.seconds {
			if s > 0 && s%10 == 0 {
				fmt.Fprintf(out, "\n  %-12s", "")
			}
			fmt.Fprintf(out, " %5d", second.Served)
		}
		fmt.Fprintln(out)
	}
	for _, t := range all {
		if t.Failed > 0 {
			fmt.Fprintf(out, "\n%s requests failed otherwise, the first of them with: %s\n", count(t.Failed), t.Problem)
		}
	}
	fmt.Fprintln(out)
}

// verdict says whether the promises are kept.
func verdict(out io.Writer, o *options, all []*trial) error {
	without, with := all[0], all[1:]
	kept, took := medians(with)
	missed := 0
	say := func(ok bool, format string, args ...any) {
		word := "kept"
		if !ok {
			word = "MISSED"
			missed++
		}
		fmt.Fprintf(out, "  %-7s %s\n", word, fmt.Sprintf(format, args...))
	}
	say(kept >= leastKept, "with the Gate it serves %s of its capacity (median of %d; at least %s)", percent(kept), len(with), percent(leastKept))
	say(took <= mostWait(o), "and 99 %% of those within %s (median of %d; at most %s)", milliseconds(took), len(with), milliseconds(mostWait(o)))
	left := without.of(without.late())
	say(left < mostLeft || o.times < 1.5, "without it %s are left in the second half (less than %s)", percent(left), percent(mostLeft))
	if missed > 0 {
		return errors.New("not all promises are kept; is the machine busy with something else?")
	}
	return nil
}

// medians are what is kept of the capacity, and the 99th percentile.
func medians(all []*trial) (kept float64, took time.Duration) {
	var shares []float64
	var times []time.Duration
	for _, t := range all {
		shares = append(shares, t.of(t.goodput()))
		times = append(times, t.percentile(99))
	}
	slices.Sort(shares)
	slices.Sort(times)
	return shares[(len(shares)-1)/2], times[len(times)/2]
}

// count is a number with its thousands apart: 12,345.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func rate(perSecond float64) string       { return fmt.Sprintf("%.0f/s", perSecond) }
func percent(share float64) string        { return fmt.Sprintf("%.1f %%", 100*share) }
func milliseconds(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/1e6) }
