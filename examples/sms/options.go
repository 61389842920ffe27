package main

import (
	"errors"
	"flag"
	"fmt"
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
	provider  string // hidden: be the provider with its state in this directory
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("sms", flag.ContinueOnError)
	f.StringVar(&o.csv, "csv", "", "`FILE` with the columns id,from,to,text; without it, the list that comes with the example")
	f.StringVar(&o.to, "to", "", "`URL` that messages are posted to; without it, a provider of its own")
	f.StringVar(&o.job, "job", "", "`NAME` under which to begin or to go on; without it, a fresh one")
	f.StringVar(&o.jobs, "jobs", jobsDir(), "`DIR` where jobs are kept")
	f.BoolVar(&o.naive, "naive", false, "send without manners: http.Client and immediate retries")
	f.IntVar(&o.workers, "workers", 24, "how many calls at once")
	f.Int64Var(&o.quota, "quota", 10_000, "how many `segments` a day")
	f.Uint64Var(&o.seed, "seed", 1, "decides which calls the provider fails")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long the provider waits for a sender to come back")
	f.StringVar(&o.provider, "provider", "", "")
	usage := f.Usage
	f.Usage = func() { usage() }
	if err := f.Parse(args); err != nil {
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
	if o.jobs, err = filepath.Abs(o.jobs); err != nil {
		return o, err
	}
	return o, nil
}
