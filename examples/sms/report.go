package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/politehttp/polite/examples/sms/provider"
	"github.com/politehttp/polite/quota"
)

// sums are what the provider's ledger says of a list.
type sums struct {
	delivered int // rows
	twice     int // of which more than once
	lost      int // rows that nobody will send any more and that are not there
	billed    int64
}

func add(rows []row, ledger []provider.Delivery, pending, rejected int) sums {
	times := map[string]int{}
	var s sums
	for _, d := range ledger {
		times[d.ID]++
		s.billed += d.Segments
	}
	missing := 0
	for _, r := range rows {
		switch n := times[r.ID]; {
		case n == 0:
			missing++
		case n > 1:
			s.twice++
			fallthrough
		default:
			s.delivered++
		}
	}
	s.lost = max(0, missing-pending-rejected)
	return s
}

// met is what the provider counted of a run.
type met struct {
	attempts int    // that cost one message of the limits, so all but the refused
	most     int    // of them, of the sender with the most
	mostOf   string // that sender
	refused  int    // 429
	failed   int    // 503
	dropped  int    // processed, and the connection dropped
	byLimit  map[string]int
}

func count(attempts []provider.Attempt) met {
	m := met{byLimit: map[string]int{}}
	by := map[string]int{}
	for _, a := range attempts {
		switch a.Status {
		case 429:
			m.refused++
			m.byLimit[a.Limit]++
			continue
		case 503:
			m.failed++
		case 0:
			m.dropped++
		}
		m.attempts++
		by[a.From]++
		if by[a.From] > m.most {
			m.most, m.mostOf = by[a.From], a.From
		}
	}
	return m
}

// ideal is the time that this many attempts take at least: the limits let a
// burst leave at once and the rest at their rate.
func (m met) ideal() time.Duration {
	ofAccount := float64(m.attempts-provider.AccountBurst) / provider.AccountRate
	ofSender := float64(m.most-provider.SenderBurst) / provider.SenderRate
	return time.Duration(max(0, ofAccount, ofSender) * float64(time.Second))
}

// table writes aligned lines: a name, a number, and what is to be said to it.
type table struct{ out io.Writer }

func (t table) line(name string, value any, note string, args ...any) {
	line := fmt.Sprintf("  %-32s %10v   ", name, value) + fmt.Sprintf(note, args...)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
}

func (t table) gap() { fmt.Fprintln(t.out) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// sums is the part of the table that the ledger tells.
func (t table) sums(s sums, rows, pending, rejected int) {
	t.line("delivered", s.delivered, "of %d", rows)
	t.line("delivered twice", s.twice, "")
	t.line("lost", s.lost, "")
	t.rest(pending, rejected)
	t.line("segments billed", s.billed, "")
}

func (t table) rest(pending, rejected int) {
	if pending > 0 {
		t.line("pending", pending, "run again with the same --job")
	}
	if rejected > 0 {
		t.line("rejected", rejected, "see done.jsonl")
	}
}

// attempts is the part that the provider counted.
func (t table) attempts(m met, all int) {
	note := "by the provider's count"
	if all > m.attempts {
		note += fmt.Sprintf(", in this run; %d in all", all)
	}
	t.line("attempts", m.attempts, "%s", note)
	if m.attempts > 0 {
		t.line("  most of one sender", m.most, "%s", m.mostOf)
	}
	t.line("  answered 503", m.failed, "")
	t.line("  processed, answer lost", m.dropped, "")
	note = ""
	if m.refused > 0 {
		note = fmt.Sprintf("%d by the account's limit, %d by a sender's", m.byLimit["account"], m.byLimit["sender"])
	}
	t.line("429s met", m.refused, "%s", note)
}

func (t table) waits(all []wait) {
	for _, w := range all {
		t.line(w.reason, w.n, "waits of %s, the longest %s", seconds(w.total/time.Duration(w.n)), seconds(w.most))
	}
}

// quota is how much of today's is spent.
func (t table) quota(ctx context.Context, q *quota.Quota) {
	var spent *quota.SpentError
	l, err := q.Spend(ctx, account, 0) // asks, and takes nothing
	if errors.As(err, &spent) {
		l.Left, err = spent.Left, nil
	}
	if err == nil {
		t.line("quota spent", q.Limit-l.Left, "of %d segments today", q.Limit)
	}
}

func (t table) time(took time.Duration, m met) {
	ideal := m.ideal()
	t.line("elapsed", seconds(took), "")
	if m.attempts == 0 { // who counted?
		return
	}
	over := ""
	if ideal > 0 {
		over = fmt.Sprintf("; %.0f %% over it", 100*(took.Seconds()/ideal.Seconds()-1))
	}
	t.line("ideal", seconds(ideal), "max((%d−%d)/%d, %d−%d)%s", m.attempts, provider.AccountBurst, provider.AccountRate,
		m.most, provider.SenderBurst, over)
}
