package retry

import (
	"time"

	"github.com/politehttp/polite/observe"
)

// kind is what an attempt came to, as far as another try is concerned.
type kind int

const (
	final     kind = iota // an answer that another try would not change, a success above all
	turnedOff             // it failed, and another try would fare no better
	unheard               // 429, 425: the provider did not act, so any method may be repeated
	transient             // 408, 500, 502, 503, 504, a connection failure, an attempt timeout
	conflict              // 409: perhaps with an earlier attempt of this very call
	refused               // this client did not send it
)

// situation is everything that a decision depends on.
type situation struct {
	kind      kind
	check     Verdict       // Policy.Check's
	ended     bool          // the caller's context
	safe      bool          // a repeat is: by its method, its key, or the caller's word
	unsent    bool          // the attempt provably was never processed
	uncertain bool          // an earlier attempt of the call may have been processed
	rewinds   bool          // the body can be sent again, or there is none
	told      bool          // the response says how long to wait
	wait      time.Duration // the told wait, or how long an open circuit stays open
	open      bool          // refused by an open circuit
	sent      int           // attempts sent, this one included
	retries   int           // waits so far
	last      time.Duration // the backoff drawn last
	room      time.Duration // until the deadline or MaxElapsed; forever if neither is set
	funded    bool          // the budget holds a token
}

// decision is what becomes of the call.
type decision struct {
	again   bool
	wait    time.Duration
	backoff time.Duration  // what was drawn
	pays    bool           // a token is due
	reason  observe.Reason // for the wait, or for giving up; empty for a final answer
}

func stop(why observe.Reason) decision { return decision{reason: why} }

// decide is the rule of this package: the same situation and the same random
// numbers give the same decision.
func (p *Policy) decide(s situation, random func() float64) decision {
	switch {
	case s.kind == refused:
		return p.decideRefused(s, random)
	case s.check == Stop && s.kind == final:
		return stop("")
	case s.check == Stop:
		return stop(observe.NotRetryable)
	case s.check == Retry:
	case s.kind == final:
		return stop("")
	}
	if s.ended {
		return stop(observe.Cancelled)
	}
	if s.check != Retry {
		if why := s.objection(); why != "" {
			return stop(why)
		}
	}
	switch {
	case !s.rewinds:
		return stop(observe.NotReplayable)
	case s.sent >= p.attempts():
		return stop(observe.Attempts)
	}
	d := decision{again: true, pays: true, reason: observe.Backoff}
	d.backoff = p.Jittered(s.retries+1, s.last, random)
	d.wait = d.backoff
	if s.told {
		switch {
		case s.wait > p.maxRetryAfter():
			return stop(observe.TooLong)
		case s.wait >= s.room:
			return stop(observe.Deadline)
		}
		// Told zero is no order to come back at once: the backoff stays the least.
		if told := s.leave(random); told >= d.wait || d.wait >= s.room && s.wait > 0 {
			d.wait, d.reason = told, observe.Told
		}
	}
	if d.wait >= s.room {
		return stop(observe.Deadline)
	}
	if !s.funded {
		return stop(observe.Budget)
	}
	return d
}

// objection says what speaks against a repeat by the table, if anything.
func (s situation) objection() observe.Reason {
	switch s.kind {
	case unheard:
		return ""
	case transient:
		if s.safe || s.unsent {
			return ""
		}
		return observe.NotSafe
	case conflict:
		switch {
		case !s.safe:
			return observe.NotSafe
		case s.told || s.uncertain:
			return ""
		}
	}
	return observe.NotRetryable
}

// decideRefused decides about an attempt that this client did not send. Only
// an open circuit passes by waiting.
func (p *Policy) decideRefused(s situation, random func() float64) decision {
	switch {
	case s.ended:
		return stop(observe.Cancelled)
	case !s.open || !p.OutlastOpen || s.check == Stop:
		return stop(observe.Refused)
	case !s.rewinds: // a circuit further down, behind a base that has closed the body
		return stop(observe.NotReplayable)
	case s.wait > p.maxRetryAfter():
		return stop(observe.TooLong)
	case s.wait >= s.room:
		return stop(observe.Deadline)
	}
	// A circuit whose probe is out may say that it opens at once. Half of the
	// backoff is the floor then, so that nobody spins on it.
	b := max(p.Backoff(s.retries+1), minOpenWait)
	floor := b - share(b/2, random)
	d := decision{again: true, reason: observe.Open, backoff: s.last, wait: max(s.leave(random), floor)}
	if d.wait >= s.room {
		return stop(observe.Deadline)
	}
	return d
}

// minOpenWait is the backoff on an open circuit when the policy has none.
const minOpenWait = 10 * time.Millisecond

// leave is the told wait with a jitter of up to a tenth, for everybody was told
// the same. What comes on top takes at most half of what then is left of the
// room.
func (s situation) leave(random func() float64) time.Duration {
	return later(s.wait, min(share(s.wait/10, random), (s.room-s.wait)/2))
}
