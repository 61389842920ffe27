// Command overload asks a server for three times what it can do, without and
// with a shed.Gate in front of it, and shows what comes of it.
//
//	go run ./examples/overload
//
//	load, a process of its own ─► net/http ─► (shed.Gate) ─► 10 workers, 20 ms a request
//	                                              │
//	                                              └► 503, and when to come back
//
// Without the Gate who finds no worker waits for one, as long as it takes. Soon
// everybody waits for longer than clients do, and the server works at full speed
// on answers that nobody is there to read. With the Gate who could not be served
// in time is told at once, and the others are served.
//
// The capacity is measured before each run, by clients of whom each sends one
// request after the other. The command fails if the Gate does not keep what it
// promises. Everything stays on this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second ctrl-C ends it as it is
	if isLoad() {
		os.Exit(load(ctx, os.Stdin, os.Stdout))
	}
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

// options are what the command is asked for.
type options struct {
	period time.Duration
	runs   int
	times  float64
	wait   time.Duration

	measuring time.Duration // of the capacity, at least 2 s
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o := options{measuring: measuring}
	flags := flag.NewFlagSet("overload", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.DurationVar(&o.period, "for", 20*time.Second, "how long each run lasts")
	flags.IntVar(&o.runs, "runs", 3, "`how often` the server with the Gate is asked; the median counts")
	flags.Float64Var(&o.times, "times", 3, "how many `times` its capacity the server is asked for")
	flags.DurationVar(&o.wait, "wait", 100*time.Millisecond, "the Gate's MaxWait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("what is %q? There are --for, --runs, --times and --wait", flags.Arg(0))
	case o.period < 2*time.Second || o.period > time.Hour:
		return fmt.Errorf("--for is %s, and must be from 2s to 1h", o.period)
	case o.runs < 1 || o.runs > 100:
		return fmt.Errorf("--runs is %d, and must be from 1 to 100", o.runs)
	case !(o.times >= 0.1 && o.times <= 10):
		return fmt.Errorf("--times is %v, and must be from 0.1 to 10", o.times)
	case o.wait < time.Millisecond || o.wait > time.Minute:
		return fmt.Errorf("--wait is %s, and must be from 1ms to 1m", o.wait)
	}
	all, err := demonstrate(ctx, &o, out)
	if err != nil {
		return err
	}
	report(out, &o, all)
	return verdict(out, &o, all)
}
