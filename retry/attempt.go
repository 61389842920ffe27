package retry

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/observe"
)

// Attempt is one try of a call. A Sender gets it to send it, Policy.Check to
// judge it; neither may keep it, for it is used again for the next try.
type Attempt struct {
	N       int           // 1 is the first; a try that was refused keeps its number
	Request *http.Request // the caller's; a Sender may put its own copy here before RoundTrip

	// What it came to, from when the Sender returned.
	Response       *http.Response     // nil if Err
	Err            error              // nil if Response
	Signal         headerparse.Signal // what the response says about limits; read when needed, unless Parsed
	Parsed         bool               // a Sender that has parsed the response puts Signal here and sets this
	NeverProcessed bool               // positive proof that the provider did not act on it
	Faulty         bool               // the request cannot be sent at all, or its own body failed: the provider has no part in it
	Refused        bool               // this client did not send it; also found by the error's Refused() bool
	OpenFor        time.Duration      // if an open circuit refused it: how long it stays open; also found by the error's OpenFor()

	// When it left and when its answer was there; zero: not known. A Sender that
	// has read the clock may set them, right before RoundTrip and right after it,
	// which spares a reading each.
	Started, Ended time.Time

	call  *Call
	began time.Duration // Started in the owner's time, if it was read
	timed bool
	sent  bool
}

// RoundTrip sends the attempt by base: with the body rewound, AttemptTimeout
// running, and a trace where it can matter. A Sender calls it once, when
// everything it had to wait for is there. A nil base is http.DefaultTransport.
func (a *Attempt) RoundTrip(base http.RoundTripper) (*http.Response, error) {
	if a.sent {
		return nil, errSentTwice
	}
	if base == nil {
		base = http.DefaultTransport
	}
	c := a.call
	a.sent, c.handed = true, true
	if c.sent++; c.sent == 1 && c.policy.Budget != NoBudget {
		c.open(a.Began())
	}
	if c.hooks == nil {
		return a.roundTrip(base)
	}
	return a.observed(base)
}

var (
	errSentTwice = errors.New("retry: an Attempt is sent once; use another RoundTripper to send twice")
	errNothing   = errors.New("retry: the base returned neither a response nor an error")
)

// Sent reports whether RoundTrip was called.
func (a *Attempt) Sent() bool { return a.sent }

// Until is the latest instant at which the attempt may leave by
// Policy.MaxElapsed; the zero time: there is no such bound, as for the first.
func (a *Attempt) Until() time.Time {
	c := a.call
	if c.retries == 0 || c.policy.MaxElapsed <= 0 {
		return time.Time{}
	}
	return c.begun.Add(c.policy.MaxElapsed)
}

func (a *Attempt) observed(base http.RoundTripper) (*http.Response, error) {
	h, ctx := a.call.hooks, a.call.Request.Context()
	event := a.event()
	if h.Attempted != nil {
		h.Attempted(ctx, event)
	}
	if h.Answered == nil {
		return a.roundTrip(base)
	}
	started := a.Began()
	resp, err := a.roundTrip(base)
	now := a.call.State.now()
	answer := observe.Answer{Attempt: event, Err: shown(err), Took: now.Sub(started)}
	if err == nil {
		// By the wall clock, which may have been set since State's first reading.
		a.Signal, a.Parsed = headerparse.Parse(resp.StatusCode, resp.Header, time.Time{}), true
		answer.Status, answer.Told, answer.IsTold = resp.StatusCode, a.Signal.Wait, a.Signal.Told
	}
	h.Answered(ctx, answer)
	return resp, err
}

// event names the attempt to hooks.
func (a *Attempt) event() observe.Attempt {
	r := a.call.Request
	e := observe.Attempt{Method: r.Method, Host: a.call.origin(), N: a.N}
	if e.Method == "" {
		e.Method = http.MethodGet
	}
	return e
}

// roundTrip is RoundTrip after the hooks.
func (a *Attempt) roundTrip(base http.RoundTripper) (*http.Response, error) {
	c, r := a.call, a.Request
	ctx, limit := r.Context(), a.limit()
	header := c.Header
	if c.policy.tells() {
		if header == nil {
			header = r.Header
		}
		header = a.telling(header, r, limit)
	}
	once := !c.bodiless && c.safe && c.policy.attempts() > 1 && repeatsBelow(r, header)
	if c.body == nil && header == nil && !c.traced && !once && limit == 0 && (c.bodiless || isInMemory(r.Body)) {
		resp, err := checked(base.RoundTrip(r))
		if err != nil {
			a.explain(r, err, nil, nil)
		}
		return resp, err
	}
	body, rewound := r.Body, c.body != nil
	if rewound {
		// An earlier attempt may still read its body, from a request of its own.
		body, c.body = c.body, nil
	}
	hasBody := body != nil && body != http.NoBody
	inMemory := !hasBody || isInMemory(body)
	events := limit > 0 && hasBody && inMemory && isNetHTTP(base)
	var trace *tracer
	if c.traced || events {
		trace = new(tracer)
		ctx = trace.with(ctx, events)
	}
	var f *flight
	var up *upload
	switch {
	case limit == 0:
		r = r.WithContext(ctx)
	case !hasBody:
		f = c.newFlight(limit)
		r = f.copy(r, ctx)
	default:
		up = c.newUpload(limit, inMemory, r.ContentLength)
		f = &up.flight
		r = f.copy(r, ctx)
	}
	if header != nil {
		r.Header = header
	}
	if once {
		r.GetBody = nil
	}
	if rewound {
		r.Body = body
	}
	var s *source
	var resp *http.Response
	var err error
	if f != nil {
		if up != nil {
			s = up.follow(inMemory, trace, events)
		}
		resp, err = f.roundTrip(base)
	} else {
		if !inMemory {
			s = &source{ReadCloser: body}
			r.Body = s
		}
		resp, err = checked(base.RoundTrip(r))
	}
	if err != nil {
		a.explain(r, err, trace, s)
	}
	return resp, err
}

// follow has the end of the body noticed: by a wrapper of the body, or by trace
// events; and until one shows that the base reports them, the attempt is watched
// as one without a body. The body is returned if it can fail.
func (u *upload) follow(inMemory bool, trace *tracer, events bool) *source {
	if events {
		trace.up = u
		u.own.phase.Store(unsure)
		return nil
	}
	u.ReadCloser = u.request.Body
	if inMemory {
		u.request.Body = memory{u}
		return nil
	}
	u.request.Body = u
	return &u.source
}

// explain says what the error of an attempt proves. r is the request as it was
// sent, s its body, if that can fail.
func (a *Attempt) explain(r *http.Request, err error, trace *tracer, s *source) {
	switch {
	case s != nil && s.failed.Load(): // the error may be the body's own, whatever it looks like
		a.Faulty = true
	case isMalformed(r, err):
		a.Faulty = true
	case trace != nil:
		a.NeverProcessed = trace.provesUnsent(err)
	case mayRepeat(r): // net/http may have sent it before it failed to dial
		a.NeverProcessed = isUnprocessedStream(err)
	default:
		a.NeverProcessed = provesUnsent(err)
	}
}

// Began is when RoundTrip sent the attempt: Started if that is set. The clock is
// read once an attempt.
func (a *Attempt) Began() time.Time {
	if !a.Started.IsZero() {
		return a.Started
	}
	since := a.since() // before epoch is looked at
	return a.call.State.epoch.Add(since)
}

// since is Began in the owner's time.
func (a *Attempt) since() time.Duration {
	if !a.timed {
		a.timed = true
		if s := a.call.State; a.Started.IsZero() {
			a.began = s.since()
		} else {
			s.begin()
			a.began = a.Started.Sub(s.epoch)
		}
	}
	return a.began
}

// Timed reports whether Began is known without another look at the clock.
func (a *Attempt) Timed() bool { return a.timed || !a.Started.IsZero() }

// isNetHTTP reports whether the base tells by trace events when it has sent a
// body.
func isNetHTTP(base http.RoundTripper) bool {
	_, ok := base.(*http.Transport)
	return ok
}

// repeatsBelow reports whether net/http would send r and its body again by
// itself if it finds a reused connection dead: at once, past every pace, budget
// and hook. Without a GetBody it leaves the repeat to us. A request without a
// body it repeats whatever we do.
func repeatsBelow(r *http.Request, h http.Header) bool {
	if r.GetBody == nil || r.Body == nil || r.Body == http.NoBody {
		return false
	}
	if h == nil {
		h = r.Header
	}
	return isReplayable(r.Method, h)
}

// mayRepeat reports whether net/http may have sent r more than once.
func mayRepeat(r *http.Request) bool {
	return (r.Body == nil || r.Body == http.NoBody || r.GetBody != nil) && isReplayable(r.Method, r.Header)
}

// isReplayable is net/http's own rule for what it may send again
// (net/http.Transport's "Idempotency-Key").
func isReplayable(method string, h http.Header) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	if _, keyed := h["Idempotency-Key"]; keyed {
		return true
	}
	_, keyed := h["X-Idempotency-Key"]
	return keyed
}

// limit is AttemptTimeout, or zero where it could change nothing, for the
// caller's own deadline comes before.
func (a *Attempt) limit() time.Duration {
	c := a.call
	d := c.policy.AttemptTimeout
	if d <= 0 || d >= forever/2 {
		return 0
	}
	if deadline, ok := a.Request.Context().Deadline(); ok && deadline.Sub(a.Began()) <= d {
		return 0
	}
	return d
}

// roundTrip sends the flight and ends its watch, however the base ends.
func (f *flight) roundTrip(base http.RoundTripper) (resp *http.Response, err error) {
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			if e := f.land(); e != nil {
				e.detach()
			}
		}
	}()
	resp, err = checked(base.RoundTrip(&f.request))
	returned = true
	e := f.land()
	if e == nil {
		return resp, err
	}
	if e.expired {
		if resp != nil { // its header came in the same instant, its body is cut off
			resp.Body.Close()
		}
		e.detach()
		return nil, &timeoutError{after: f.terms.limit, err: err}
	}
	if !e.isAttached() {
		return resp, err
	}
	if err != nil || resp.Body == http.NoBody {
		e.detach()
		return resp, err
	}
	e.down = download{resp.Body, e}
	if w, ok := resp.Body.(io.Writer); ok {
		resp.Body = duplex{&e.down, w}
	} else {
		resp.Body = &e.down
	}
	return resp, nil
}

// checked holds a base to the contract of http.RoundTripper: a response with a
// body or an error, never both and never neither.
func checked(resp *http.Response, err error) (*http.Response, error) {
	switch {
	case err != nil && resp != nil:
		if resp.Body != nil {
			resp.Body.Close()
		}
		return nil, err
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, errNothing
	case resp.Body == nil:
		resp.Body = http.NoBody
	}
	return resp, nil
}
