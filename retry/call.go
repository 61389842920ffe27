package retry

import (
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/observe"
)

// Sender is what one attempt is. A Transport's is a.RoundTrip(base); one that
// waits for its turn or asks a circuit first does so before that, and may
// refuse by an error with a method Refused() bool. It leaves the request's body
// alone: Do closes what was not sent.
type Sender interface {
	Send(a *Attempt) (*http.Response, error)
}

// Forecaster is a Sender that knows how long it keeps attempts waiting. It is
// asked before a response is given up for a retry that will be there at the
// instant at: when could that leave, as far as is known? Nothing is reserved by
// it. If that is past the deadline or Policy.MaxElapsed, the response is
// returned instead. The zero time says that nothing stands in the way.
type Forecaster interface {
	Sender
	Forecast(at time.Time) (leaves time.Time)
}

// Call is what Do needs to know. It also holds what the call needs while it
// runs, so that an owner with a structure of its own per call embeds it there:
// a Call may be used for another Do when the former has returned, and must not
// be copied.
type Call struct {
	Request *http.Request // the caller's; not written to
	Policy  *Policy       // nil: the zero Policy. WithPolicy's comes before it
	State   *State        // the owner's; required
	Header  http.Header   // sent in place of the request's; nil: its own
	Origin  string        // the request's scheme://host:port, if it is known
	Vouched bool          // a key makes a repeat safe
	Prove   bool          // find out about NeverProcessed also where neither retries nor Policy.Check need it
	Sender  Sender        // required

	run
	tries    []Try // the memory of these stays with the Call
	engine   *engine
	flights  *[flightsAtOnce]flight
	flown    int // of flights
	uploads  *[uploadsAtOnce]upload
	uploaded int    // of uploads
	terms    *terms // of its last flight
}

// run is one Do.
type run struct {
	policy *Policy
	hooks  *observe.Hooks
	begun  time.Time // read only with MaxElapsed

	safe     bool // a repeat is: by its method, its key or the caller's word
	traced   bool
	bodiless bool

	tired       bool // it did not go well at once: everything here may be in use
	attempt     Attempt
	verdict     decision
	interrupted bool          // the caller's context ended before the next attempt
	body        io.ReadCloser // the next attempt's, if it is not the caller's
	handed      bool          // the caller's body is a base's business now
	sent        int
	retries     int
	backoff     time.Duration // drawn last
	processed   bool          // for all we know
	uncertain   bool          // an attempt failed halfway, for all we know

	account *account // the budget's, of this call if it is opened
	opened  bool

	status int // of the last response that was given up
	signal headerparse.Signal
}

// Do sends a call, as often as its policy allows. It returns what
// http.RoundTripper promises: a response, or an error. neverProcessed says that
// the provider provably acted on no attempt; it is false when a response is
// returned.
func Do(c *Call) (resp *http.Response, neverProcessed bool, err error) {
	c.begin()
	resp, err = c.send()
	if err == nil && resp.StatusCode < 400 && c.policy.Check == nil {
		return c.finishAtOnce(resp), false, nil
	}
	c.attempt.Response, c.attempt.Err = resp, err
	if c.decide() {
		c.tryAgain()
	}
	return c.finish()
}

func (c *Call) begin() {
	if c.State == nil {
		c.State = new(State)
	}
	r := c.Request
	ctx := r.Context()
	o := optionsOf(ctx)
	policy := o.policy
	if policy == nil {
		if policy = c.Policy; policy == nil {
			policy = &defaultPolicy
		}
	}
	// Here and below, what is as the last call left it is not written again:
	// pointers are dear to write while the garbage collector runs.
	if c.policy != policy {
		c.policy = policy
	}
	if h := observe.From(ctx); c.hooks != h {
		c.hooks = h
	}
	c.bodiless = r.Body == nil || r.Body == http.NoBody
	c.safe = c.Vouched || o.idempotent || isIdempotent(r.Method)
	// For all others a proof is what allows a repeat, if the body does.
	c.traced = c.Prove || c.policy.Check != nil || !c.safe && (c.bodiless || r.GetBody != nil)
	if c.policy.MaxElapsed > 0 {
		c.begun = c.State.now()
	}
}

func (c *Call) send() (*http.Response, error) {
	a := &c.attempt
	if c.tired {
		*a = Attempt{}
	}
	a.N, a.Request = c.sent+1, c.Request
	if a.call != c {
		a.call = c
	}
	resp, err := checked(c.Sender.Send(a))
	if resp != nil && !a.sent { // answered by the Sender itself
		if c.sent++; c.sent == 1 {
			c.open(c.State.now())
		}
	}
	return resp, err
}

// decide judges the attempt and, if there will be another, makes ready for it.
func (c *Call) decide() (again bool) {
	a := &c.attempt
	if a.Err == nil && a.Response.StatusCode < 400 && c.policy.Check == nil {
		if c.tired {
			c.verdict = decision{}
		}
		c.succeed()
		return false
	}
	c.tired = true
	decided := false
	defer func() {
		if !decided { // Check, GetBody or a hook panicked, or ended the goroutine
			c.abandon()
		}
	}()
	s := c.judge()
	if (s.kind == final || s.kind == conflict) && s.check != Retry {
		c.succeed()
	}
	c.verdict = c.weigh(&s)
	if c.verdict.again && !c.prepare() {
		c.verdict.again = false
	}
	if c.verdict.again || a.Err != nil {
		c.remember()
	}
	c.report()
	if c.verdict.again {
		c.retries++
		c.backoff = c.verdict.backoff
		c.uncertain = c.uncertain || s.kind == transient && !a.NeverProcessed
		if resp := a.Response; resp != nil {
			c.status, c.signal = resp.StatusCode, a.Signal
			discard(resp.Body, resp.ContentLength)
			a.Response = nil
		}
	}
	decided = true
	return c.verdict.again
}

// abandon closes what the caller will not get.
func (c *Call) abandon() {
	if resp := c.attempt.Response; resp != nil {
		resp.Body.Close()
	}
	if c.body != nil {
		c.body.Close()
	}
}

// judge finds out what the attempt came to.
func (c *Call) judge() situation {
	a := &c.attempt
	s := situation{ended: hasEnded(c.Request), safe: c.safe, uncertain: c.uncertain}
	if err := a.Err; err != nil {
		a.Err = withoutURL(err)
		if s.kind = kindOfError(err); a.Faulty {
			s.kind = turnedOff
		}
		if a.Refused || !a.sent || s.kind == refused {
			s.kind, a.Refused, a.NeverProcessed = refused, true, true
			s.wait, s.open = openFor(err)
			if a.OpenFor > 0 {
				s.wait, s.open = a.OpenFor, true
			}
			a.OpenFor = s.wait
		}
	} else {
		if !a.Parsed {
			a.Signal, a.Parsed = headerparse.Parse(a.Response.StatusCode, a.Response.Header, a.Ended), true
		}
		s.kind = kindOfStatus(a.Response)
		s.told, s.wait = a.Signal.Told, a.Signal.Wait
	}
	c.processed = c.processed || !a.NeverProcessed
	s.unsent = a.NeverProcessed
	if check := c.policy.Check; check != nil {
		s.check = check(a)
	}
	return s
}

// weigh completes the situation and decides.
func (c *Call) weigh(s *situation) decision {
	if s.kind == final && s.check != Retry {
		return decision{}
	}
	now := c.State.now()
	s.sent, s.retries, s.last = c.sent, c.retries, c.backoff
	s.rewinds = c.bodiless || c.Request.GetBody != nil || !c.handed
	s.room = c.room(now)
	funds := c.funds()
	s.funded = funds == nil || funds.level(now) >= oneToken
	random := c.State.random
	if random == nil {
		random = rand.Float64
	}
	d := c.policy.decide(*s, random)
	if f, ok := c.Sender.(Forecaster); ok && d.again && s.room < forever {
		if leaves := f.Forecast(now.Add(d.wait)); leaves.Sub(now) >= s.room {
			return stop(observe.Deadline)
		}
	}
	return d
}

// room is how long the next attempt may be put off.
func (c *Call) room(now time.Time) time.Duration {
	room := forever
	if d, ok := c.Request.Context().Deadline(); ok {
		room = d.Sub(now)
	}
	if most := c.policy.MaxElapsed; most > 0 {
		room = min(room, most-now.Sub(c.begun))
	}
	return room
}

// prepare gets what the next attempt needs: a body, then a token. The response
// at hand is not touched before both are there, for without them it is the
// caller's.
func (c *Call) prepare() bool {
	if c.handed && c.body == nil && !c.bodiless {
		body, err := c.Request.GetBody()
		if err != nil || body == nil {
			c.verdict.reason = observe.NotReplayable
			return false
		}
		c.body = body
	}
	if funds := c.funds(); c.verdict.pays && funds != nil && !funds.take(c.State.now()) {
		c.verdict.reason = observe.Budget
		return false
	}
	return true
}

// open finds the account that pays for the call's retries, and counts the call.
func (c *Call) open(now time.Time) {
	b := c.policy.Budget
	if b == NoBudget {
		return
	}
	if b == nil {
		b = &c.State.budget
	}
	var key string
	if c.policy.Key != nil {
		key = c.policy.Key(c.Request)
	} else {
		key = c.origin()
	}
	account := b.account(key, now)
	if c.account != account {
		c.account = account
	}
	c.opened = true
	account.count(now)
}

// funds is the account that pays for retries; nil: nobody asks for payment.
func (c *Call) funds() *account {
	if !c.opened {
		return nil
	}
	return c.account
}

// succeed earns for the call.
func (c *Call) succeed() {
	if funds := c.funds(); funds != nil {
		funds.success.Add(1)
	}
}

func (c *Call) origin() string {
	if c.Origin != "" {
		return c.Origin
	}
	return c.State.origins.Of(c.Request.URL)
}

// remember adds the attempt to the history.
func (c *Call) remember() {
	a := &c.attempt
	t := Try{Err: a.Err, NeverProcessed: a.NeverProcessed, Refused: a.Refused}
	if a.Response != nil {
		t.Status = a.Response.StatusCode
	}
	if c.verdict.again {
		t.Wait = c.verdict.wait
	}
	if len(c.tries) == maxTries {
		copy(c.tries, c.tries[1:])
		c.tries = c.tries[:maxTries-1]
	}
	c.tries = append(c.tries, t)
}

func (c *Call) report() {
	h := c.hooks
	if h == nil {
		return
	}
	ctx, d := c.Request.Context(), c.verdict
	status, err := 0, shown(c.attempt.Err)
	if r := c.attempt.Response; r != nil {
		status = r.StatusCode
	}
	switch {
	case d.again && h.Retried != nil:
		h.Retried(ctx, observe.Retry{Attempt: c.attempt.event(), Status: status, Err: err, Wait: d.wait, Reason: d.reason})
	case !d.again && d.reason != "" && h.GaveUp != nil:
		h.GaveUp(ctx, observe.GaveUp{Attempt: c.attempt.event(), Status: status, Err: err, Reason: d.reason})
	}
}
