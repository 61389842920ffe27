package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// show reports on the rows every now and then until the returned function is
// called: as a bar on a terminal, as a line a second elsewhere.
func show(out io.Writer, before, rows int, w *watch) (stop func()) {
	every, draw, end := time.Second, lines(out, before, rows), func() {}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		every, draw, end = bar(f, before, rows)
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				draw(w.counts())
			case <-quit:
				draw(w.counts())
				end()
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func lines(out io.Writer, before, rows int) func(counts) {
	begin := time.Now()
	return func(c counts) {
		fmt.Fprintf(out, "%4.0fs  %d of %d rows done%s\n", time.Since(begin).Seconds(), before+c.ended(), rows, c.aside())
	}
}

const (
	barWidth = 24
	aroundIt = 36 // percentage, count, times
)

func bar(out *os.File, before, rows int) (every time.Duration, draw func(counts), end func()) {
	b := progressbar.NewOptions(rows,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription("sending"),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
	)
	return 100 * time.Millisecond,
		func(c counts) {
			text := "rows" + c.aside()
			if columns, _, err := term.GetSize(int(out.Fd())); err == nil { // a line that wraps cannot be drawn anew
				text = text[:max(0, min(len(text), columns-barWidth-aroundIt))]
			}
			b.Describe(text)
			b.Set(before + c.ended())
		},
		func() { b.Exit(); fmt.Fprintln(out) }
}

func (c counts) ended() int { return c.sent + c.rejected + c.lost }

// aside is what is worth a word beside the rows.
func (c counts) aside() string {
	s := ""
	add := func(n int, what string) {
		if n > 0 {
			s += fmt.Sprintf(", %d %s", n, what)
		}
	}
	add(c.repeated, "repeated")
	add(c.refused, "refused")
	add(c.again, "round again")
	add(c.rejected, "rejected")
	add(c.lost, "given up")
	return s
}
