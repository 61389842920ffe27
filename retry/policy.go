package retry

import (
	"context"
	"math"
	"net/http"
	"time"
)

// Policy says whether, when and how often to try again. Its zero value is the
// recommended one. A Policy holds no state (the Budget it may point to does)
// and may be copied; it must not change while calls use it.
type Policy struct {
	// MaxAttempts is how many times a call may be sent, the first included.
	// Zero: 4. Negative: no bound of this kind.
	MaxAttempts int

	// Base is the backoff before the first retry, which doubles with each one
	// up to Cap. Base zero: 500 ms, negative: no wait. Cap zero: 10 s, negative:
	// no cap.
	Base, Cap time.Duration

	// Jitter spreads the waits of many clients. Zero: FullJitter.
	Jitter Jitter

	// MaxElapsed bounds the time from the call's begin to the last retry's
	// departure, waits included. An attempt under way is never cut short by it.
	// Zero or negative: the context's deadline alone.
	MaxElapsed time.Duration

	// AttemptTimeout bounds one attempt, from the end of the request's upload
	// to the response's header. For a request without a body it counts from when
	// the base first asks the request's context for its end, which net/http does
	// at departure. A base that never asks cannot be interrupted, and its answer
	// counts whenever it comes. A response body may take as long as it wants.
	// Zero or negative: none.
	AttemptTimeout time.Duration

	// MaxRetryAfter is the longest told wait that is waited for. A longer one
	// returns the response at once. Zero: 5 min. Negative: no bound.
	MaxRetryAfter time.Duration

	// Budget is what retries are paid from. Nil: the owner's own (each
	// Transport has one). NoBudget: none.
	Budget *Budget

	// OutlastOpen waits for an open circuit as for a told wait, instead of
	// failing with its error. Such a wait counts as no attempt and costs no
	// budget, for nothing was sent; MaxRetryAfter, MaxElapsed and the deadline
	// bound it.
	OutlastOpen bool

	// Key is what the budget counts against. Nil: scheme://host:port.
	Key func(*http.Request) string

	// AttemptHeader names a field by which each attempt tells its number: 1 is
	// the first. An overloaded provider can refuse repeats first, and one that
	// is called through several layers sees where load multiplies. The
	// recommended name is the constant AttemptHeader. Empty: not sent.
	AttemptHeader string

	// DeadlineHeader names a field by which each attempt tells how many
	// milliseconds there are until nobody waits for its answer any more: until
	// AttemptTimeout or the caller's deadline, whichever comes first, at least 1.
	// So a provider with a queue need not work for a caller who has left. Without
	// either end nothing is sent. The recommended name is the constant
	// DeadlineHeader. Empty: not sent.
	//
	// A field that the caller has set stays as it is. With Header[name] = nil a
	// request tells nothing.
	DeadlineHeader string

	// Check overrides the table in the package comment for one attempt. It
	// cannot allow what is never done: send a body that cannot be rewound, go
	// on after the caller's context ended, exceed MaxAttempts, a deadline or
	// the budget. It must not keep the Attempt, and what it reads of its
	// Response's body it must put back in front of it. Nil: the table.
	Check func(*Attempt) Verdict
}

// Verdict is what Policy.Check says of an attempt.
type Verdict int

// The verdicts.
const (
	ByTable Verdict = iota // as the table in the package comment says
	Retry                  // worth another try, and safe to repeat
	Stop                   // the last one
)

// Jitter is how a backoff is randomised. FullJitter makes N clients which
// failed together come back with the fewest calls (AWS Architecture Blog,
// "Exponential Backoff And Jitter").
type Jitter int

// The jitters, for a backoff b.
const (
	FullJitter         Jitter = iota // anything from 0 to b
	NoJitter                         // b
	EqualJitter                      // b/2 to b
	DecorrelatedJitter               // Base to three times the last wait, at most Cap
)

const (
	defaultAttempts      = 4
	defaultBase          = 500 * time.Millisecond
	defaultCap           = 10 * time.Second
	defaultMaxRetryAfter = 5 * time.Minute

	forever = time.Duration(math.MaxInt64)
)

var defaultPolicy Policy

func (p *Policy) attempts() int {
	switch {
	case p.MaxAttempts == 0:
		return defaultAttempts
	case p.MaxAttempts < 0:
		return math.MaxInt
	}
	return p.MaxAttempts
}

func (p *Policy) base() time.Duration {
	if p.Base == 0 {
		return defaultBase
	}
	return max(p.Base, 0)
}

func (p *Policy) ceiling() time.Duration {
	switch {
	case p.Cap == 0:
		return defaultCap
	case p.Cap < 0:
		return forever
	}
	return p.Cap
}

func (p *Policy) maxRetryAfter() time.Duration {
	switch {
	case p.MaxRetryAfter == 0:
		return defaultMaxRetryAfter
	case p.MaxRetryAfter < 0:
		return forever
	}
	return p.MaxRetryAfter
}

// options are what a context says about one call. Both in one value, for each
// look-up in a context costs.
type options struct {
	policy     *Policy
	idempotent bool
}

type optionsKey struct{}

func optionsOf(ctx context.Context) options {
	o, _ := ctx.Value(optionsKey{}).(*options)
	if o == nil {
		return options{}
	}
	return *o
}

// WithPolicy gives the calls made with the returned context a policy of their
// own, in place of all of the Transport's: to change one field, change a copy.
// A nil p gives them the Transport's again.
//
//	p := *transport.Retry
//	p.MaxAttempts = 1
//	ctx = retry.WithPolicy(ctx, &p)
func WithPolicy(ctx context.Context, p *Policy) context.Context {
	o := optionsOf(ctx)
	o.policy = p
	return context.WithValue(ctx, optionsKey{}, &o)
}

// WithIdempotent marks the calls made with the returned context as safe to
// repeat, whatever their method: because a precondition guards them, say, or
// because the provider ignores what it has seen before.
func WithIdempotent(ctx context.Context) context.Context {
	o := optionsOf(ctx)
	o.idempotent = true
	return context.WithValue(ctx, optionsKey{}, &o)
}
