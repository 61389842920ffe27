package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/examples/sms/provider"
	"github.com/politehttp/polite/quota"
)

// polite sends what is left of the job, and reports.
func (j *job) polite(ctx context.Context, o options, rows []row, out io.Writer) error {
	store, err := quota.OpenFile(j.quotaFile())
	if err != nil {
		return err
	}
	defer store.Close()
	to, err := j.target(ctx, o)
	if err != nil {
		return err
	}
	w, pending := newWatch(), j.pending(rows)
	t := politely(connections(o.workers), store, o.quota, to.child != nil, w)
	onHeels := time.Since(j.last) < refill
	if onHeels {
		coolDown(t)
	}
	s := &sender{job: j, url: to.messages, client: &http.Client{Transport: t}, queue: newQueue(pending, o.workers), watch: w}

	stop := show(out, len(rows)-len(pending), len(rows), w)
	begin := time.Now()
	failed := s.run(ctx, o.workers)
	took := time.Since(begin)
	stop()
	t.CloseIdleConnections()
	if ctx.Err() != nil {
		failed = fmt.Errorf("interrupted; --job %s goes on with it", j.name)
	} else {
		to.stop()
	}

	sums, m, err := j.sums(to, rows)
	if err != nil {
		return err
	}
	tab := table{out}
	tab.gap()
	tab.sums(sums)
	tab.quota(t.Quotas[0])
	tab.gap()
	if to.child != nil {
		tab.attempts(m)
	} else {
		tab.line("429s met", w.counts().refused, "")
	}
	tab.gap()
	tab.waits(w.reasons())
	tab.gap()
	tab.time(took, m, onHeels)
	switch {
	case failed != nil:
		return failed
	case sums.lost > 0, sums.twice > 0:
		return errors.New("the ledger shows messages that were lost or delivered twice")
	case sums.rejected > 0:
		return errors.New("the provider has rejected messages")
	}
	return nil
}

// naive sends the whole list without manners, and reports what came of it.
func (j *job) naive(ctx context.Context, o options, rows []row, out io.Writer) error {
	if len(j.pending(rows)) < len(rows) {
		return fmt.Errorf("job %q was sent already; --naive cannot go on where it stopped", j.name)
	}
	to, err := j.target(ctx, o)
	if err != nil {
		return err
	}
	base, w := connections(1), newWatch()
	stop := show(out, 0, len(rows), w)
	begin := time.Now()
	naively(ctx, base, to.messages, rows, w)
	took := time.Since(begin)
	stop()
	base.CloseIdleConnections()
	to.stop()
	for _, r := range rows { // sent or given up, it will not be tried again
		if err := j.finish(outcome{Row: r.N}); err != nil {
			return err
		}
	}

	sums, m, err := j.sums(to, rows)
	if err != nil {
		return err
	}
	tab := table{out}
	tab.gap()
	tab.sums(sums)
	tab.gap()
	tab.attempts(m)
	tab.gap()
	tab.time(took, m, false)
	return nil
}

// target is who the messages go to.
type target struct {
	messages string // URL
	child    *child // nil: not ours
	before   int    // attempts that it met in earlier runs
}

func (j *job) target(ctx context.Context, o options) (target, error) {
	if o.to != "" {
		return target{messages: o.to}, nil
	}
	c, err := startProvider(ctx, j.providerDir(), o.seed, o.idle)
	if err != nil {
		return target{}, err
	}
	before, err := provider.Attempts(j.providerDir())
	return target{messages: c.URL + "/messages", child: c, before: len(before)}, err
}

func (t target) stop() {
	if t.child != nil {
		t.child.stop()
	}
}

// sums reads what became of the rows, from the ledger of the provider if it is
// ours, and what it met in this run.
func (j *job) sums(to target, rows []row) (s sums, m met, err error) {
	if to.child == nil {
		return add(rows, nil, j.outcomes()), m, nil
	}
	ledger, err := provider.Ledger(j.providerDir())
	if err != nil {
		return s, m, err
	}
	attempts, err := provider.Attempts(j.providerDir())
	if err != nil {
		return s, m, err
	}
	if ledger == nil {
		ledger = []provider.Delivery{}
	}
	m = count(attempts[to.before:])
	m.before = count(attempts[:to.before]).attempts
	return add(rows, ledger, j.outcomes()), m, nil
}

// coolDown takes the burst away: a run that follows on the heels of another does
// not know how much of it that one has used.
func coolDown(t *polite.Transport) {
	t.Lanes[0].Pacer.Hold(account, time.Now().Add(100*time.Millisecond))
}

// connections are as many as workers, and kept.
func connections(workers int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = workers
	return t
}
