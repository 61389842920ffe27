package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"time"
)

// options are the command line.
type options struct {
	job, jobs string
	csv, to   string
	naive     bool
	workers   int
	quota     int64
	seed      uint64
	idle      time.Duration
}

func parse(args []string, out io.Writer) (o options, err error) {
	f := flag.NewFlagSet("sms", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is told once, by main
	f.StringVar(&o.csv, "csv", "", "the list, a `FILE` with the columns id,from,to,text; without it, the one of the example")
	f.StringVar(&o.to, "to", "", "the `URL` that messages are posted to; without it, a provider is started")
	f.StringVar(&o.job, "job", "", "the `NAME` to begin or to go on with; without it, a fresh one")
	f.StringVar(&o.jobs, "jobs", jobsDir(), "the `DIR` where jobs are kept")
	f.BoolVar(&o.naive, "naive", false, "send without manners: http.Client and immediate retries")
	f.IntVar(&o.workers, "workers", 24, "how many calls at once")
	f.Int64Var(&o.quota, "quota", 10_000, "how many segments a day")
	f.Uint64Var(&o.seed, "seed", 1, "decides which calls the provider fails")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long the provider waits for a sender to come back")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(out, "sms sends a list of messages, each once. Flags:")
			f.SetOutput(out)
			f.PrintDefaults()
		}
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is not a flag; see --help", f.Arg(0))
	case o.naive && o.to != "":
		return o, errors.New("--naive is for the provider of this example, not for --to")
	case o.workers < 1:
		return o, fmt.Errorf("--workers is %d; want 1 or more", o.workers)
	case o.quota < 1:
		return o, fmt.Errorf("--quota is %d; want 1 or more", o.quota)
	}
	if u, err := url.Parse(o.to); o.to != "" && (err != nil || u.Host == "") {
		return o, fmt.Errorf("--to is %q; want a URL such as https://sms.example.com/messages", o.to)
	}
	o.jobs, err = filepath.Abs(o.jobs)
	return o, err
}
