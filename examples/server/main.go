// Command server is an API that says no: to anonymous callers by their address,
// to customers by their plan and region, strictly to whoever guesses passwords,
// and by the unit to whoever wants the dear export.
//
//	go run ./examples/server                          fifteen seconds of polite and naive callers
//	go run ./examples/server --serve 127.0.0.1:8080   only serves; try it with curl
//
//	POST /login          name and password by HTTP Basic: a token
//	GET  /parcels/{id}   one unit
//	GET  /export         25 units, for customers
//	GET  /policies       the limits, for those who write clients: a page, or JSON
//
//	caller ─► load balancer ─► who is it? ─► limiter.Guard ─► the work
//	           X-Forwarded-For   token         │  rules.go
//	                                           └► 429, and when to come back
//
// What is refused, and to whom, stands at /monitor of a second address, which
// is not for the public. Everything stays on this machine.
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
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(out)
	address := flags.String("serve", "", "only serve, on this `address`, until ctrl-C")
	period := flags.Duration("for", 15*time.Second, "how long the callers call")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("what is %q? There is --serve and --for", flags.Arg(0))
	}
	if *period < time.Second || *period > time.Hour {
		return fmt.Errorf("--for is %s, and must be from 1s to 1h", *period)
	}
	if *address != "" {
		return serve(ctx, *address, out)
	}
	return demonstrate(ctx, *period, out)
}
