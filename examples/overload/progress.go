package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress is a line on a terminal that says how far the work is; elsewhere it
// is nothing.
type progress struct {
	out  io.Writer // nil: no terminal
	name string
}

func newProgress(out io.Writer, name string) *progress {
	p := &progress{name: name}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.out = out
	}
	return p
}

func (p *progress) line(format string, args ...any) {
	if p.out != nil {
		fmt.Fprintf(p.out, "\r\x1b[K  %s, %s ", p.name, fmt.Sprintf(format, args...))
	}
}

func (p *progress) hide() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
