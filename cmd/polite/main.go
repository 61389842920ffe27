// Command polite shows what the parts of this module do.
//
//	polite lab                     lists the experiments
//	polite lab NAME                reruns one, and prints what came out
//	polite lab all --html FILE     reruns all, as one page with pictures
//
// An experiment has figures that must hold. The exit code is 1 if one is missed,
// or if something else fails, and 2 if the command line is wrong.
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
)

// A command is a word after polite.
type command struct {
	name string
	does string // one line
	run  func(ctx context.Context, args []string, out, progress io.Writer) error
}

var commands = []command{
	{"lab", "reruns the experiments, prints what came out and draws it", runLab},
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second ctrl-C ends it as it is
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command, and returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	err := dispatch(ctx, args, out, errs)
	var wrong *usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(errs, "polite: %v\n", err)
		return 2
	}
	fmt.Fprintf(errs, "polite: %v\n", err)
	return 1
}

// A usageError says what is wrong with the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func dispatch(ctx context.Context, args []string, out, errs io.Writer) error {
	if len(args) == 0 {
		usage(errs)
		return usagef("a command is missing")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(out)
		return nil
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(ctx, args[1:], out, errs)
		}
	}
	usage(errs)
	return usagef("there is no command %q", args[0])
}

func usage(to io.Writer) {
	fmt.Fprint(to, "Usage: polite COMMAND [ARGUMENTS]\n\n")
	for _, c := range commands {
		fmt.Fprintf(to, "  %-8s%s\n", c.name, c.does)
	}
	fmt.Fprint(to, "\npolite COMMAND --help says more.\n\n")
}
