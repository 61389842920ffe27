package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/politehttp/polite/examples/sms/provider"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/quota"
)

// sums are what became of the rows of a list.
type sums struct {
	rows     int
	accepted int // by the answers
	rejected int // by the answers
	pending  int // to be sent in another run
	ledger   bool

	// By the ledger.
	delivered int
	twice     int // of which more than once
	lost      int // not there, and nobody will send them any more
	known     int // pending, but there: the answer has not come
	billed    int64
}

// add counts; a nil ledger is not known.
func add(rows []row, ledger []provider.Delivery, done map[int]outcome) sums {
	s := sums{rows: len(rows), ledger: ledger != nil}
	times := map[string]int{}
	for _, d := range ledger {
		times[d.ID]++
		s.billed += d.Segments
	}
	for _, r := range rows {
		n := times[r.ID]
		if n > 0 {
			s.delivered++
		}
		if n > 1 {
			s.twice++
		}
		switch o, ended := done[r.N]; {
		case !ended:
			s.pending++
			if n > 0 {
				s.known++
			}
		case o.Rejected != "":
			s.rejected++
		default:
			s.accepted++
			if n == 0 && s.ledger {
				s.lost++
			}
		}
	}
	return s
}

// met is what the provider counted in a run.
type met struct {
	attempts int    // that the limits let pass
	most     int    // of the sender with the most
	mostOf   string // that sender
	failed   int    // 503
	dropped  int    // processed, and the connection dropped
	refused  map[string]int
	before   int // attempts in earlier runs
}

func count(attempts []provider.Attempt) met {
	m := met{refused: map[string]int{}}
	by := map[string]int{}
	for _, a := range attempts {
		switch a.Status {
		case 429:
			m.refused[a.Limit]++
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

// ideal is the time that so many attempts take at least: the limits let a burst
// pass at once and the rest at their rate.
func (m met) ideal() time.Duration {
	ofAccount := float64(m.attempts-provider.AccountBurst) / provider.AccountRate
	ofSender := float64(m.most-provider.SenderBurst) / provider.SenderRate
	return time.Duration(max(0, ofAccount, ofSender) * float64(time.Second))
}

// table writes lines of a name, a number, and what is to be said to it.
type table struct{ out io.Writer }

func (t table) line(name string, value any, note string, args ...any) {
	line := fmt.Sprintf("  %-24s %8v   ", name, value) + fmt.Sprintf(note, args...)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
}

func (t table) gap() { fmt.Fprintln(t.out) }

func (t table) sums(s sums) {
	if !s.ledger {
		t.line("accepted", s.accepted, "of %d", s.rows)
	} else {
		t.line("delivered", s.delivered, "of %d", s.rows)
		t.line("delivered twice", s.twice, "")
		t.line("lost", s.lost, "")
	}
	if s.pending > 0 {
		note := "run again with the same --job"
		if s.known > 0 {
			note += fmt.Sprintf("; %d of them delivered, the answer is still to come", s.known)
		}
		t.line("pending", s.pending, "%s", note)
	}
	if s.rejected > 0 {
		t.line("rejected", s.rejected, "the reasons are in done.jsonl")
	}
	if s.ledger {
		t.line("segments billed", s.billed, "")
	}
}

// quota is how much of today's is spent.
func (t table) quota(q *quota.Quota) {
	left, err := q.Spend(context.Background(), account, 0) // asks, and takes nothing
	var spent *quota.SpentError
	if errors.As(err, &spent) {
		left.Left, err = spent.Left, nil
	}
	if err == nil {
		t.line("quota spent", q.Limit-left.Left, "of %d segments today", q.Limit)
	}
}

func (t table) attempts(m met) {
	note := "as the provider counted"
	if m.before > 0 {
		note += fmt.Sprintf(", in this run; %d before", m.before)
	}
	t.line("attempts", m.attempts, "%s", note)
	t.line("  most of one sender", m.most, "%s", m.mostOf)
	t.line("  answered 503", m.failed, "")
	t.line("  answer lost", m.dropped, "processed, and the connection dropped")
	note, refused := "", m.refused["account"]+m.refused["sender"]
	if refused > 0 {
		note = fmt.Sprintf("%d by the account's limit, %d by a sender's", m.refused["account"], m.refused["sender"])
	}
	t.line("429s met", refused, "%s", note)
}

var waits = map[observe.Reason]string{
	observe.Pace:    "waits for the pace",
	observe.Hold:    "waits for a hold",
	observe.Told:    "waits told, then again",
	observe.Backoff: "waits to try again",
	observe.Open:    "waits for the circuit",
}

func (t table) waits(all []wait) {
	for _, w := range all {
		t.line(waits[w.reason], w.n, "%s on average, the longest %s", seconds(w.total/time.Duration(w.n)), seconds(w.most))
	}
}

func (t table) time(took time.Duration, m met, cooled bool) {
	t.line("elapsed", seconds(took), "")
	ideal := m.ideal()
	if ideal == 0 {
		return
	}
	why := ""
	if cooled {
		why = ", for the run before has used the burst"
	}
	t.line("ideal", seconds(ideal), "max((%d−%d)/%d, %d−%d); we took %.0f %% more%s",
		m.attempts, provider.AccountBurst, provider.AccountRate, m.most, provider.SenderBurst,
		100*(took.Seconds()/ideal.Seconds()-1), why)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
