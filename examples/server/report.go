package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/politehttp/polite/limiter"
)

// report writes a table with a line for each caller, and what it comes to.
func report(out io.Writer, pairs []*pair, period time.Duration) {
	line := func(cells ...any) {
		text := fmt.Sprintf("  %-24s %-6s %6s %8s %6s %7s %7s %6s", cells...)
		fmt.Fprintln(out, strings.TrimRight(text, " "))
	}
	line("", "", "", "", "", "a call", "longest", "of its")
	line("who, and the limit", "client", "calls", "admitted", "429s", "waited", "wait", "limit")
	var polite, naive tally // of those that are there twice
	for _, p := range pairs {
		fmt.Fprintln(out)
		left := []string{p.who, "  " + words(p)}
		for i, c := range p.both() {
			line(left[i], c.kind(), count(c.sent), count(c.admitted()), count(c.refused),
				seconds(c.average()), seconds(c.longest), share(int64(c.admitted())*c.cost, most(p.limits, period)))
		}
		if p.polite == nil {
			fmt.Fprintln(out, "  "+left[1])
			continue
		}
		polite.add(&p.polite.tally)
		naive.add(&p.naive.tally)
	}
	fmt.Fprintf(out, "\nPolite got %s of what naive got, with %s refusals in place of %s.\n",
		share(int64(polite.admitted()), int64(naive.admitted())), count(polite.refused), count(naive.refused))
	for _, p := range pairs {
		for _, c := range p.both() {
			if c.later > period {
				fmt.Fprintf(out, "%s, %s: waits; the next call may leave in %s.\n", p.who, c.kind(), c.later.Round(time.Second))
			}
		}
	}
}

func (c *caller) kind() string {
	if c.polite {
		return "polite"
	}
	return "naive"
}

// count is a number with its thousands apart: 12,345.
func count[N int | int64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func share(n, of int64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// words are the limits, and what a call costs, in a few words.
func words(p *pair) string {
	var all []string
	for _, l := range p.limits {
		period, _ := l.Calendar()
		switch {
		case period == limiter.Day:
			all = append(all, count(l.Quota())+" a day")
		case period == limiter.Month:
			all = append(all, count(l.Quota())+" a month")
		case l.Burst() > 0:
			all = append(all, count(l.Rate().Count)+each(l.Rate().Per))
		default:
			all = append(all, count(l.Quota())+each(l.Window()))
		}
	}
	if p.naive.cost > 1 {
		all = append(all, fmt.Sprintf("each is %d", p.naive.cost))
	}
	return strings.Join(all, ", ")
}

func each(d time.Duration) string {
	switch d {
	case time.Second:
		return "/s"
	case time.Minute:
		return "/min"
	}
	return " in " + d.String()
}

// most is how many units the limits let pass in a period that is shorter than a
// day, to whom asks all the time.
func most(limits []*limiter.Limit, period time.Duration) int64 {
	least := int64(math.MaxInt64)
	for _, l := range limits {
		pass := l.Quota()
		switch rate := l.Rate(); {
		case rate.Per > 0:
			pass += rate.Count * int64(period) / int64(rate.Per)
		case l.Window() > 0:
			pass *= int64((period-1)/l.Window()) + 1
		}
		least = min(least, pass)
	}
	return least
}
