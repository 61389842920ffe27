// Command sms sends a list of text messages to a provider that says no, and
// ends with a table that says what became of each.
//
//	go run ./examples/sms                     300 messages, to a provider that it starts itself
//	go run ./examples/sms --naive             the same with http.Client and immediate retries
//	go run ./examples/sms --job spring        interrupted, even by kill -9, it goes on where it stopped
//	go run ./examples/sms --csv my.csv        a list of your own: id,from,to,text
//	go run ./examples/sms --to https://…      another provider: POST {"id","from","to","text"}
//
// The provider is a process of its own, on loopback (see ./provider): it bills
// per message segment, lets an account send 10 messages a second and a sender
// number one, answers some calls with 503, and of some messages that it has
// processed it loses the answer.
//
//	messages.csv ─► queue ─► workers ─► polite.Transport ─► provider ─► ledger
//	                  ▲         │        key: job and row                  │
//	                  └─ failed ┘        quota: segments a day             ▼
//	                                     pace: account, sender           table
//
// What a job has done stands in a directory of its cache (--jobs), so the same
// --job goes on. To call a provider of your own, set SMS_AUTHORIZATION to what
// its Authorization header is to say.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

//go:generate sh -c "go run ./generate > messages.csv"

//go:embed messages.csv
var messages string

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second ctrl-C ends it as it is
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sms:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == beProvider {
		return provide(ctx, args[1:])
	}
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	name, list := "messages.csv", []byte(messages)
	if o.csv != "" {
		name = o.csv
		if list, err = os.ReadFile(o.csv); err != nil {
			return err
		}
	}
	rows, err := readList(name, bytes.NewReader(list))
	if err != nil {
		return err
	}
	j, err := openJob(o.jobs, cmp.Or(o.job, freshJob()), list, o.to, o.naive)
	if err != nil {
		return err
	}
	defer j.close()
	var segments int64
	senders := map[string]bool{}
	for _, r := range rows {
		segments += r.Segments
		senders[r.From] = true
	}
	fmt.Fprintf(out, "%s: %d messages of %d segments from %d numbers\n", name, len(rows), segments, len(senders))
	fmt.Fprintf(out, "job %s, kept in %s\n", j.name, j.dir)
	if n := len(rows) - len(j.pending(rows)); n > 0 {
		fmt.Fprintf(out, "%d rows were done before\n", n)
	}
	fmt.Fprintln(out)
	if o.naive {
		return j.naive(ctx, o, rows, out)
	}
	return j.polite(ctx, o, rows, out)
}
