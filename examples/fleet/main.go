// Command fleet sends from several processes at one pace, to one provider that
// limits the account they share.
//
//	go run ./examples/fleet                          eight processes, ten seconds
//	go run ./examples/fleet --processes 40
//	go run ./examples/fleet --redis 127.0.0.1:6379   the pace in a real Redis
//
//	process 1 ─┐                      ┌─► provider: 400 a second, bursts of 100,
//	process 2 ─┼─ polite.Transport ───┤             or else 429
//	   ...     │        ▲             │
//	process 8 ─┘        └─ when? ─► Redis: one pace of 400 a second
//
// None of them knows how many there are, or what the others do. Without --redis
// a miniredis within the first process holds the pace. Everything stays on this
// machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == beMember {
		if err := member(os.Stdin, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "fleet: a process:", err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second ctrl-C ends it as it is
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// options are those of the command line.
type options struct {
	processes int
	rate      int64
	redis     string
	period    time.Duration
}

func parse(args []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.processes, "processes", 8, "how many processes send")
	flags.Int64Var(&o.rate, "rate", 400, "how many calls a second the provider allows")
	flags.StringVar(&o.redis, "redis", "", "the `address` of a Redis that holds the pace (default a miniredis in here)")
	flags.DurationVar(&o.period, "for", 10*time.Second, "how long they send")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("what is %q? There is --processes, --rate, --redis and --for", flags.Arg(0))
	case o.processes < 1 || o.processes > 200:
		return o, fmt.Errorf("--processes is %d, and must be from 1 to 200", o.processes)
	case o.rate < 10 || o.rate > 100_000:
		return o, fmt.Errorf("--rate is %d, and must be from 10 to 100000", o.rate)
	case o.period < 2*time.Second || o.period > time.Hour:
		return o, fmt.Errorf("--for is %s, and must be from 2s to 1h", o.period)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	where := "the Redis at " + o.redis
	if o.redis == "" {
		mini, err := miniredis.Run()
		if err != nil {
			return err
		}
		defer mini.Close()
		o.redis, where = mini.Addr(), "a miniredis in here"
	} else if conn, err := net.DialTimeout("tcp", o.redis, time.Second); err != nil {
		return fmt.Errorf("--redis %s: %w", o.redis, err) // each process would keep to its share, and all would look well
	} else {
		_ = conn.Close()
	}
	p, err := startProvider(o.rate, o.processes)
	if err != nil {
		return err
	}
	defer p.close()
	fmt.Fprintf(out, "%d processes share one pace of %d a second, held by %s.\n", o.processes, o.rate, where)
	fmt.Fprintf(out, "The provider allows %d a second, and %d at once.\n\n", o.rate, p.burst)

	ctx, cancel := context.WithTimeout(ctx, startWithin+o.period)
	defer cancel()
	members, err := startMembers(ctx, o, p.url)
	if err != nil {
		return err
	}
	p.begin()
	stop := show(out, p, o)
	select {
	case <-time.After(o.period):
	case <-members.failed:
	case <-ctx.Done():
	}
	stop()
	counts := p.counts()
	if err := members.stop(); err != nil {
		return err
	}
	report(out, counts, o)
	for _, p := range members.all { // who could not keep to the shared pace says so
		if moans := strings.TrimSpace(p.moans.String()); moans != "" {
			fmt.Fprintln(out, moans)
		}
	}
	return nil
}
