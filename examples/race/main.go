// Command race shows why a limit that several processes share is decided in one
// step. Two processes send 400 requests at once through a limit of 50 a minute
// that is kept in Redis:
//
//   - Who reads the count, and writes it if there is room, lets more through:
//     others have read the same count meanwhile. First so that everybody reads
//     before anybody writes, which is the worst that can happen; then as it comes.
//   - redisstore decides in a script: 50 are admitted, in every round.
//
// It runs everything on this machine and takes a few seconds:
//
//	go run ./examples/race
//	go run ./examples/race --redis 127.0.0.1:6379   in a Redis that is there already
//	go run ./examples/race --redis embedded         in one within this program
//
// Without --redis it starts a redis-server of its own, if there is one. In a
// Redis that is there already it leaves keys of a minute's life, which begin with
// race.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// The experiment.
const (
	limit     = 50  // a minute
	processes = 2   // that share it
	requests  = 200 // of each process, at once
)

func main() {
	actAsInstance()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second ctrl-C ends it as it is
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "race:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("race", flag.ContinueOnError)
	flags.SetOutput(out)
	address := flags.String("redis", "", "the `address` of a Redis, or embedded")
	rounds := flags.Int("rounds", 20, "how often each way is tried")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("what is %q? There is --redis and --rounds", flags.Arg(0))
	}
	if *rounds < 1 || *rounds > 1000 {
		return fmt.Errorf("--rounds is %d, and must be from 1 to 1000", *rounds)
	}

	redis, err := findRedis(ctx, *address)
	if err != nil {
		return err
	}
	defer redis.stop()
	both, err := startInstances(ctx, redis.address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, both.stop()) }()

	fmt.Fprintf(out, "%d requests at once, %d from each of %d processes. The limit is %d a minute.\nRedis: %s\n\n",
		processes*requests, requests, processes, limit, redis.what)
	return experiment(ctx, out, both, *rounds)
}

// experiment tries all ways, and returns an error if one does not do what is
// claimed.
func experiment(ctx context.Context, out io.Writer, both instances, rounds int) error {
	var wrong []error
	id := strconv.FormatUint(rand.Uint64(), 36) // keys of its own
	for _, way := range []struct {
		name, says string
		rounds     int
		right      func(admitted int) bool // nil: whatever comes
	}{
		{gated, "Read, then write, and everybody reads before anybody writes:", 1, func(n int) bool { return n > limit }},
		{naive, "Read, then write, as it comes:", rounds, nil},
		{script, "One script:", rounds, func(n int) bool { return n == limit }},
	} {
		fmt.Fprintf(out, "%s\n ", way.says)
		for round := range way.rounds {
			admitted, err := both.round(ctx, way.name, fmt.Sprintf("%s-%s-%d", id, way.name, round))
			if err != nil {
				return err
			}
			fmt.Fprintf(out, " %d", admitted)
			if way.right != nil && !way.right(admitted) {
				wrong = append(wrong, fmt.Errorf("%s, round %d: %d were admitted", way.name, round+1, admitted))
			}
		}
		fmt.Fprint(out, " admitted\n\n")
	}
	return errors.Join(wrong...)
}
