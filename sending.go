package polite

import (
	"net/http"
	"slices"
	"time"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
)

// sending is what a try holds while it is under way.
type sending struct {
	call    *call
	try     *retry.Attempt
	spent   []spending // of the quotas that count tries
	pass    breaker.Pass
	permit  breaker.Permit
	release func()
	unread  *http.Response  // if Outcome or Actual panics, nobody gets it
	outcome breaker.Outcome // until an answer is read: neutral
	told    time.Duration
	now     time.Time
}

// read learns from an answer.
func (s *sending) read(resp *http.Response, err error) {
	c, a := s.call, s.try
	if c.t.adapts {
		s.adapt(resp, err)
	}
	if s.spent != nil {
		c.settle(s.spent, resp, a.NeverProcessed)
	}
	if err != nil {
		s.outcome = outcomeOf(c.ctx(), a, err)
		return
	}
	classify := Outcome
	if c.t.Outcome != nil {
		classify = c.t.Outcome
	}
	if resp.StatusCode < 400 && c.timesThis() {
		c.took(c.t.retries.Now().Sub(a.Began()))
	}
	if !a.Parsed && resp.StatusCode < 400 && headerparse.Silent(resp.Header) {
		// The clock is dear. An answer that went well and says nothing may as
		// well have come when its try began.
		if a.Timed() {
			s.now = a.Began()
		}
		s.outcome = classify(resp.StatusCode, false)
		c.learnNothing(resp.StatusCode)
		return
	}
	signal := a.Signal
	if !a.Parsed { // a zero instant: the wall clock is read if a field needs it
		signal = headerparse.Parse(resp.StatusCode, resp.Header, time.Time{})
	}
	if s.now = a.Began(); resp.StatusCode >= 400 || signal.Told || signal.Limits != nil {
		s.now = c.t.retries.Now()
		a.Ended, a.Signal, a.Parsed = s.now, signal, true
		if c.t.Account == nil {
			s.told = signal.Wait // zero unless told; else it is about an account, not about the host
		}
	}
	s.outcome = classify(resp.StatusCode, signal.Told)
	c.learn(&signal, s.now)
}

// adapt tells those pacers that find out how much may be in flight whether there
// was room for the call.
func (s *sending) adapt(resp *http.Response, err error) {
	dropped := false
	switch {
	case err != nil:
		if !missed(s.call.ctx(), s.try, err) {
			return
		}
		dropped = true
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusServiceUnavailable:
		dropped = true
	case resp.StatusCode >= 500:
		return
	}
	places := s.call.places()
	for i, c := range places {
		// A pacer that a lane shares has one place for both.
		if !slices.ContainsFunc(places[:i], func(p pacer.Claim) bool { return p.Pacer == c.Pacer && p.Key == c.Key }) {
			c.Pacer.Adapt(c.Key, dropped)
		}
	}
}

// timeEvery is of how many answers one is timed.
const timeEvery = 16

// timesThis reports whether an answer is to be timed: calls that have no deadline
// need not know.
func (c *call) timesThis() bool {
	if len(c.claims) == 0 {
		return false
	}
	if _, ends := c.ctx().Deadline(); !ends {
		return false
	}
	c.ending++
	return c.ending%timeEvery == 1
}

func (c *call) took(d time.Duration) {
	for _, p := range c.places() {
		p.Pacer.Took(p.Key, d)
	}
}

// hold keeps the places in flight until the body is read or closed.
func (s *sending) hold(resp *http.Response) *http.Response {
	if resp != nil && s.call.inFlightBounded() {
		resp.Body = holdUntilRead(s.call.ctx(), resp, s.release)
		s.release = nothing
	}
	return resp
}

func (s *sending) end() {
	defer s.release() // also when a hook of the circuit panics
	if s.unread != nil {
		s.unread.Body.Close()
	}
	if s.spent != nil && !s.try.Sent() {
		s.call.refund(s.spent)
	}
	s.pass.Done(s.outcome, s.now)
	s.permit.Done(s.outcome, s.told, s.now)
}

func (c *call) inFlightBounded() bool {
	for i := range c.claims {
		if p := c.claims[i].Pacer; p.MaxInFlight > 0 || p.AdaptInFlight {
			return true
		}
	}
	return false
}
