package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// show says on a terminal, every now and then, how far the callers are, until
// the returned function is called.
func show(out io.Writer, pairs []*pair, period time.Duration) (stop func()) {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	begin := time.Now()
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				var all tally
				for _, p := range pairs {
					for _, c := range p.both() {
						all.add(&c.tally)
					}
				}
				fmt.Fprintf(out, "\r  %.0f of %.0f s: %s calls, %s of them refused ", time.Since(begin).Seconds(), period.Seconds(),
					count(all.sent), count(all.refused))
			case <-quit:
				fmt.Fprint(out, "\r\x1b[K")
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}
