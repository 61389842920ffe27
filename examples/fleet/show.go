package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// show says every second what came in it, from each process and in sum: on a
// terminal as bars that move, else as lines. It ends when stop is called.
func show(out io.Writer, p *provider, o options) (stop func()) {
	v := &view{out: out, options: o}
	every := time.Second
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		_, rows, err := term.GetSize(int(f.Fd()))
		v.bars, every = err == nil && rows > o.processes+8, 200*time.Millisecond
		if !v.bars {
			every = time.Second
		}
	}
	if !v.bars {
		fmt.Fprintln(out, strings.TrimRight("second      sum  429  "+v.heading(), " "))
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				v.draw(p.counts())
			case <-quit:
				v.draw(p.counts())
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

type view struct {
	out io.Writer
	options
	bars    bool
	seconds int // drawn as lines
	drawn   int // lines of the bars on the screen
}

// mostColumns is how many processes have a column of their own.
const mostColumns = 10

func (v *view) heading() string {
	if v.processes > mostColumns {
		return "each process"
	}
	var b strings.Builder
	for i := range v.processes {
		fmt.Fprintf(&b, "%5s", fmt.Sprint("#", i+1))
	}
	return b.String()
}

func (v *view) draw(c *counts) {
	if v.bars {
		v.drawBars(c)
		return
	}
	for ; time.Duration(v.seconds+1)*time.Second <= c.lasted; v.seconds++ {
		from := time.Duration(v.seconds) * time.Second
		each, sum := c.between(from, from+time.Second)
		fmt.Fprintf(v.out, "%3d to %-3d %4d %4d  %s\n", v.seconds, v.seconds+1, sum.sent, sum.refused, v.columns(each))
	}
}

func (v *view) columns(each []tally) string {
	least, most := each[0].sent, each[0].sent
	var b strings.Builder
	for _, t := range each {
		least, most = min(least, t.sent), max(most, t.sent)
		fmt.Fprintf(&b, "%5d", t.sent)
	}
	if len(each) > mostColumns {
		return fmt.Sprintf("from %d to %d", least, most)
	}
	return b.String()
}

// drawBars shows the second until now.
func (v *view) drawBars(c *counts) {
	from := max(0, c.lasted-time.Second)
	each, sum := c.between(from, c.lasted)
	span := (c.lasted - from).Seconds()
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	v.drawn = 0
	line := func(name string, n, of float64, width int) {
		full := int(min(n/of, 1.25) * float64(width))
		fmt.Fprintf(&b, "\x1b[K  %-10s %6.0f /s %s\n", name, n, strings.Repeat("█", full))
		v.drawn++
	}
	fair := float64(v.rate) / float64(v.processes)
	for i, t := range each {
		line(fmt.Sprintf("process %d", i+1), float64(t.sent)/span, fair, 20)
	}
	line("sum", float64(sum.sent)/span, float64(v.rate), 40)
	fmt.Fprintf(&b, "\x1b[K  %.0f of %.0f s, %d refused in the last second\n", c.lasted.Seconds(), v.period.Seconds(), sum.refused)
	v.drawn++
	_, _ = io.WriteString(v.out, b.String())
}

// report writes a table of what it comes to.
func report(out io.Writer, c *counts, o options) {
	first, early := c.between(0, warmUp)
	rest, late := c.between(warmUp, c.lasted)
	fmt.Fprintf(out, "\n%-12s %8s %8s %14s\n", "", "sent", "429s", "of them after")
	fmt.Fprintf(out, "%-12s %8s %8s %14s\n", "", "", "", "the warm-up")
	line := func(name string, a, b tally) {
		fmt.Fprintf(out, "%-12s %8d %8d %14d\n", name, a.sent+b.sent, a.refused+b.refused, b.refused)
	}
	for i := range first {
		line(fmt.Sprint("process ", i+1), first[i], rest[i])
	}
	line("sum", early, late)
	if c.lasted <= warmUp {
		fmt.Fprintln(out, "\nIt ended before all were under way.")
		return
	}
	fmt.Fprintf(out, "\nFrom the second second on the fleet used %.1f %% of the limit, and was refused %d times.\n",
		100*c.used(o.rate), late.refused)
}
