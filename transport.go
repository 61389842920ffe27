package polite

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/idempotency"
	"github.com/politehttp/polite/internal/origin"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// Transport is an [http.RoundTripper] that makes a client polite. It takes a
// call through the packages of the module in the one order that the figure in
// the package comment shows; a nil part is left out. The zero Transport only
// passes calls on; [NewTransport] is the one to start from.
//
// Make one and keep it, for it holds what was learnt: the pace, the budget and
// the circuits. Clients that share a limit share its parts: the same *Pacer,
// *Breaker and *Quota in each of their Transports, or one Transport for all.
//
// A client that may overload its provider has three parts more, all off until
// they are set:
//
//	Throttle              keeps back what would be refused anyway
//	Pacer.AdaptInFlight   finds out how many calls may be in flight
//	Retry.AttemptHeader   tells the provider which try it is,
//	Retry.DeadlineHeader  and for how long an answer is waited for
//
// It keeps the contract of http.RoundTripper to the letter: the request is not
// written to and its body closed exactly once, redirects and cookies are the
// http.Client's business, and no goroutine stays behind. Safe for concurrent
// use; its fields must not change after the first call. It must not be copied.
type Transport struct {
	Base http.RoundTripper // sends; nil: http.DefaultTransport

	// Account names what pace and quotas count against: one key with the
	// provider, say an API account. nil: scheme://host:port, as observe.Host
	// writes it. The names reach hooks and logs, so they must not be secrets.
	Account func(*http.Request) string

	// Cost is the units of pace that a request takes, such as messages or
	// tokens. nil: 1; zero and less: nothing to pace. It must not read the
	// body: what stands there travels in the request's context.
	Cost func(*http.Request) int64

	Keys     *idempotency.Keys // one key for all tries of a call; nil: only those of idempotency.WithKey
	Quotas   []*quota.Quota    // spent before the first try, all or none
	Retry    *retry.Policy     // nil: one try
	Breaker  *breaker.Breaker  // by scheme://host:port, whatever Account says; nil: none
	Throttle *breaker.Throttle // likewise; nil: off. Accepted is what Outcome calls a success
	Pacer    *pacer.Pacer      // by account; nil: none
	Lanes    []Lane            // further pacers, for some requests

	// Outcome says how the breaker counts an answer with this status, told
	// meaning that it asked for a wait. nil: [Outcome]. NewTransport sets one
	// that takes every 503 for a throttle.
	Outcome func(status int, told bool) breaker.Outcome

	// Fallback answers in place of an open circuit, and of nothing else; the
	// error holds a *breaker.OpenError. nil: the error is returned. The
	// request's body is closed already.
	Fallback func(*http.Request, error) (*http.Response, error)

	Hooks *observe.Hooks // beside those of the request's context; nil: none

	origins origin.Cache
	retries retry.State
	idle    sync.Pool // of *call
	compile sync.Once
	lanes   []lane
	adapts  bool // a pacer finds out how much may be in flight
	invalid error
}

// NewTransport returns the recommended client for an API of which nothing is
// known. A nil base is http.DefaultTransport. All fields may be changed before
// the first call.
//
//   - Retry: four tries where a repeat is safe, each with 30 s for the answer
//     to begin, within a retry budget for each host.
//   - Breaker: the circuit of a host opens after 5 calls in a row that did not
//     reach it, or when half of at least 20 calls in 10 s failed; for 1 s, and
//     twice as long after every failed probe, up to a minute. Every 429 and
//     503 is a throttle to it: the pacer slows down, the circuit stays closed.
//     A client of fewer calls that wants it to open on errors too sets
//     Breaker.UnreachableOnly to false, and one to whom a 503 means "down" sets
//     Outcome to polite.Outcome.
//   - Pacer: no fixed rate; it obeys what the provider says, and slows down
//     when it is refused without a word.
//   - No idempotency keys, for most providers ignore them, and a key that is
//     ignored makes a repeat unsafe.
//   - Off: what is for clients that may overload their provider, see [Transport].
func NewTransport(base http.RoundTripper) *Transport {
	return &Transport{
		Base:  base,
		Retry: &retry.Policy{AttemptTimeout: 30 * time.Second},
		Breaker: &breaker.Breaker{
			Failures: 5, UnreachableOnly: true,
			FailureRate: 0.5, MinCalls: 20, Window: 10 * time.Second,
			OpenFor: time.Second, MaxOpenFor: time.Minute,
			ProbeTimeout: 35 * time.Second, // longer than an attempt, so that a probe that hangs still reports
		},
		Pacer:   &pacer.Pacer{},
		Outcome: throttledBy503,
	}
}

// Check says what is wrong with the configuration, or nil. RoundTrip returns
// the same error. It looks once; what changes afterwards is not seen.
func (t *Transport) Check() error {
	t.compile.Do(t.prepare)
	return t.invalid
}

func (t *Transport) prepare() {
	if t.invalid = t.checkParts(); t.invalid != nil {
		return
	}
	t.lanes, t.invalid = compileLanes(t.Lanes)
	t.adapts = t.Pacer != nil && t.Pacer.AdaptInFlight
	for i := range t.lanes {
		t.adapts = t.adapts || t.lanes[i].Pacer.AdaptInFlight
	}
	if h := t.Hooks; h != nil && h.BreakerChanged != nil && t.Breaker != nil {
		t.Breaker.Notify(func(key string, from, to breaker.State) {
			// No call owns a circuit, so no call's context goes with it.
			h.BreakerChanged(context.Background(), observe.BreakerChange{Key: key, From: from.String(), To: to.String()})
		})
	}
}

// RoundTrip sends one call, with as many tries as it takes and may take. If the
// last try was answered, that answer is returned and no error, whatever its
// status and however many tries there were. An error is a *retry.Error with
// every try, if any was made; *quota.SpentError, *breaker.OpenError,
// *breaker.ThrottleError, *pacer.WaitError, pacer.ErrQueueFull or
// pacer.ErrTooLarge if none was.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := t.begin(r)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	if len(t.Quotas) > 0 { // quota: once per call
		if err = c.spend(); err != nil {
			c.refusedByQuota(err)
			closeBody(r)
			t.end(c)
			return nil, err
		}
	}
	resp, untouched, err := retry.Do(&c.retry) // retry: c.Send, again and again
	if c.spent != nil {
		c.settleCall(resp, untouched)
	}
	t.end(c)

	if err != nil && t.Fallback != nil {
		resp, err = t.fallback(r, err)
	}
	if resp != nil && resp.Request != r {
		resp.Request = r
	}
	return resp, err
}

// fallback asks Fallback if it was the circuit that refused the last try, and
// the caller is still there.
func (t *Transport) fallback(r *http.Request, err error) (*http.Response, error) {
	if r.Context().Err() != nil || !refusedByCircuit(err) {
		return nil, err
	}
	resp, err := t.Fallback(r, err)
	switch {
	case resp == nil && err == nil:
		return nil, errors.New("polite: Transport.Fallback returned neither a response nor an error")
	case resp == nil:
		return nil, err
	case resp.Body == nil:
		resp.Body = http.NoBody
	}
	if err != nil { // never both
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func refusedByCircuit(err error) bool {
	if tried, ok := err.(*retry.Error); ok && len(tried.Tries) > 0 {
		err = tried.Tries[len(tried.Tries)-1].Err
	}
	_, ok := err.(*breaker.OpenError)
	return ok
}

// CloseIdleConnections closes the idle connections of Base, if it has any.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// call is one call on its way. A Transport keeps the memory of those that are
// over, so nothing that outlives RoundTrip may point to it.
type call struct {
	t     *Transport // what stands here first is the same for all calls of t
	retry retry.Call

	account string // for pace and quotas
	cost    int64
	claims  []pacer.Claim // places that it needs to leave: the Pacer's first
	lanes   []*lane       // that match, in the order of their claims
	spent   []spending    // per call
	values  []string      // memory for the next calls' keys, made in one go
	ending  uint          // answers to calls with a deadline that this memory has seen
}

// begin names the call, gives it its key, and finds its lanes.
func (t *Transport) begin(r *http.Request) (*call, error) {
	if r.URL == nil {
		return nil, errors.New("polite: Request.URL is nil; allowed is an absolute URL")
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	header, key, err := t.Keys.For(r)
	if err != nil {
		return nil, err
	}
	c, _ := t.idle.Get().(*call)
	if c == nil {
		c = t.newCall()
	}
	account := t.origins.Of(r.URL)
	// What is as the last call left it is not written again: pointers are dear
	// to write while the garbage collector runs.
	if c.retry.Origin != account {
		c.retry.Origin = account
	}
	if t.Account != nil {
		account = t.Account(r)
	}
	if c.account != account {
		c.account = account
	}
	c.cost = 1
	if t.Cost != nil {
		c.cost = t.Cost(r)
	}
	c.retry.Request = r
	c.retry.Vouched = key != "" || r.Method != http.MethodGet && t.Keys.Vouched(r)
	if key != "" {
		c.retry.Header = c.withKey(r.Header, header, key)
	}
	if t.Hooks != nil {
		c.retry.Request = r.WithContext(observe.With(r.Context(), t.Hooks))
	}
	if t.Pacer != nil {
		own := &c.claims[0]
		if own.N = max(0, c.cost); own.Key != account {
			own.Key = account
		}
	}
	if len(t.lanes) > 0 {
		c.enterLanes(r)
	}
	return c, nil
}

func (t *Transport) newCall() *call {
	c := &call{t: t, claims: make([]pacer.Claim, 0, 1+len(t.lanes))}
	if t.Pacer != nil {
		c.claims = append(c.claims, pacer.Claim{Pacer: t.Pacer})
	}
	c.retry.Policy, c.retry.State, c.retry.Sender = t.Retry, &t.retries, c
	if t.Retry == nil {
		c.retry.Policy = once
	}
	c.retry.Prove = len(t.Quotas) > 0 // what was provably not processed is refunded
	return c
}

// end keeps the call's memory for the next one, without what the caller owns.
func (t *Transport) end(c *call) {
	c.retry.Request = nil
	if c.retry.Header != nil {
		c.retry.Header = nil
	}
	if len(c.lanes) > 0 {
		c.claims, c.lanes = c.claims[:len(c.claims)-len(c.lanes)], c.lanes[:0]
	}
	if c.spent != nil {
		clear(c.spent)
		c.spent = c.spent[:0]
	}
	t.idle.Put(c)
}

// ctx is the request's, with the Transport's hooks.
func (c *call) ctx() context.Context { return c.retry.Request.Context() }

var once = &retry.Policy{MaxAttempts: 1}

// Send is one try: wait for the turn, take the throttle's pass and the circuit's
// permit, send, and let every room learn from the answer.
func (c *call) Send(a *retry.Attempt) (*http.Response, error) {
	t := c.t
	if t.Breaker != nil { // fail fast: an open circuit costs no token and no wait
		if left, open := t.Breaker.Open(c.retry.Origin, time.Time{}); open {
			return nil, &breaker.OpenError{Key: c.retry.Origin, RetryAfter: left}
		}
	}
	var err error
	var draw float64 // one chance, looked at before the wait and after it
	if t.Throttle != nil {
		draw = rand.Float64()
		if err = t.Throttle.Check(c.retry.Origin, time.Time{}, draw); err != nil {
			return nil, err
		}
	}
	s := sending{call: c, try: a, release: nothing}
	defer s.end()          // also when Base panics
	if len(t.Quotas) > 0 { // a quota that is spent costs no token either
		if s.spent, err = c.spendTry(); err != nil {
			return nil, err
		}
	}
	release, err := c.wait(a.Until())
	if err != nil {
		return nil, err
	}
	s.release = release
	if err = c.ctx().Err(); err != nil { // too late to send says nothing about the host
		return nil, c.withCause(err)
	}
	if t.Throttle != nil {
		if s.pass, err = t.Throttle.Enter(c.retry.Origin, time.Time{}, draw); err != nil {
			return nil, err
		}
	}
	if t.Breaker != nil {
		if s.permit, err = t.Breaker.Enter(c.retry.Origin, time.Time{}); err != nil {
			return nil, err
		}
	}
	resp, err := a.RoundTrip(t.base())
	s.unread = resp
	s.read(resp, err)
	s.unread = nil
	return s.hold(resp), err
}

// wait returns when all pacers let the call go, or refuses if that is not
// before an instant.
func (c *call) wait(until time.Time) (release func(), err error) {
	if until.IsZero() {
		return c.leave(c.ctx())
	}
	ctx, cancel := context.WithDeadline(c.ctx(), until)
	defer cancel()
	return c.leave(ctx)
}

func (c *call) leave(ctx context.Context) (release func(), err error) {
	switch claims := c.places(); len(claims) {
	case 0:
		return nothing, nil
	case 1:
		return claims[0].Pacer.Wait(ctx, claims[0].Key, claims[0].N)
	default:
		return pacer.WaitAll(ctx, claims...)
	}
}

// places are what the call has to wait for: a cost of zero needs no leave.
func (c *call) places() []pacer.Claim {
	if c.t.Pacer != nil && c.cost <= 0 {
		return c.claims[1:]
	}
	return c.claims
}

// Forecast tells retry when the pacers would let another try leave, so that an
// answer is not given up for a try that would come too late.
func (c *call) Forecast(at time.Time) time.Time {
	leaves := pacer.Forecast(at, c.places()...)
	deadline, ends := c.ctx().Deadline()
	if !ends || !leaves.After(at) {
		return leaves
	}
	takes := time.Duration(0) // for who waits must leave in time for the answer, see pacer.Took
	for _, p := range c.places() {
		takes = max(takes, p.Pacer.Takes(p.Key))
	}
	return leaves.Add(min(takes, max(0, deadline.Sub(at)/2)))
}

// withCause adds to the error of the call's context why that ended.
func (c *call) withCause(err error) error {
	if ctx := c.ctx(); err == ctx.Err() {
		_, err = pacer.WaitAll(ctx) // with nothing to wait for, it says just this
	}
	return err
}

func nothing() {}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}
