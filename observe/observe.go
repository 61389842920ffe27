// Package observe shows what a polite client is doing, and why.
//
// [Hooks] is a struct of functions, all of which may be nil, in the manner of
// [net/http/httptrace.ClientTrace]. It travels in a request's context, so that
// every room of the module reports to the same place without knowing it:
//
//	ctx := observe.With(ctx, observe.Slog(slog.Default()))
//
// or, for every call of a client, in the Hooks field of polite.Transport.
//
//	call begins
//	  │ Paced      the pacer let it leave, after so long, for this reason
//	  │ Attempted  one try goes out
//	  │ Answered   a response head or an error came back
//	  │ Retried    another try will follow, after this wait, for this reason
//	  │ GaveUp     no further try: why
//	  ▼
//	any time: BreakerChanged, QuotaLow, QuotaSpent
//
// What is guaranteed: hooks run in the goroutine of the call they report on,
// outside every lock, one after the other for one call; a nil hook costs a
// comparison. A circuit belongs to no call: BreakerChanged is called for the
// Hooks of a polite.Transport only, with a background context. Events carry the method and scheme://host:port of a request and
// never its path, query, header or body, so no secret of those reaches a log.
// Keys are what the caller's Account and Key functions return: these must not
// return secrets.
package observe

import (
	"context"
	"net/http"
	"time"

	"github.com/politehttp/polite/internal/origin"
)

// Hooks are called at the steps of a call. Every field may be nil. A hook must
// return soon, for the call waits for it, and may be called from many
// goroutines at once.
type Hooks struct {
	Paced          func(context.Context, Paced)
	Attempted      func(context.Context, Attempt)
	Answered       func(context.Context, Answer)
	Retried        func(context.Context, Retry)
	GaveUp         func(context.Context, GaveUp)
	BreakerChanged func(context.Context, BreakerChange)
	QuotaLow       func(context.Context, Quota)
	QuotaSpent     func(context.Context, Quota)
}

// Reason says why a call waited or stopped.
type Reason string

// The reasons for a wait.
const (
	Pace     Reason = "pace"      // the configured rate
	Learnt   Reason = "learnt"    // the rate that a refusal without numbers taught
	Spread   Reason = "spread"    // little is left, and spread until the provider's reset
	Hold     Reason = "hold"      // the provider said how long to wait, and nobody leaves before
	InFlight Reason = "in-flight" // too many calls under way
	Backoff  Reason = "backoff"   // our own wait between two tries
	Told     Reason = "told"      // the wait between two tries that the provider asked for
	Open     Reason = "open"      // an open circuit, outlasted
)

// The reasons for giving up, beside the above.
const (
	Attempts      Reason = "attempts"       // Policy.MaxAttempts are used up
	Budget        Reason = "budget"         // the retry budget is spent
	Deadline      Reason = "deadline"       // the next wait would outlive the deadline or MaxElapsed
	TooLong       Reason = "too-long"       // the told wait is over Policy.MaxRetryAfter
	NotReplayable Reason = "not-replayable" // the body cannot be sent again
	NotSafe       Reason = "not-safe"       // a repeat could act twice
	NotRetryable  Reason = "not-retryable"  // another try would fare no better
	Cancelled     Reason = "cancelled"      // the caller's context ended
	Refused       Reason = "refused"        // this client refused to send: circuit, pacer or quota
)

// Paced reports that a pacer let N units leave at At. Over any time T the units
// of one key that were reported are at most Burst + Rate × T by these stamps.
type Paced struct {
	Key    string
	N      int64
	Wait   time.Duration // how long the call waited for it; zero if not at all
	Reason Reason        // what it waited for last; empty if it did not wait
	At     time.Time     // the pacer's clock at the grant
}

// Attempt reports that try number N (from 1) of a call goes out.
type Attempt struct {
	Method, Host string // Host is scheme://host:port
	N            int
}

// Answer reports how a try ended: with a status, or with Err.
type Answer struct {
	Attempt
	Status int           // zero if Err
	Err    error         // nil if Status
	Took   time.Duration // to the response head
	Told   time.Duration // the wait that the answer asks for
	IsTold bool          // whether it asks for one
}

// Retry reports that another try follows after Wait.
type Retry struct {
	Attempt       // the one that failed
	Status  int   // what it was answered; zero if Err
	Err     error // nil if Status
	Wait    time.Duration
	Reason  Reason // Backoff, Told or Open
}

// GaveUp reports that a failed try is the last one of its call.
type GaveUp struct {
	Attempt
	Status int   // what it was answered; zero if Err
	Err    error // nil if Status
	Reason Reason
}

// BreakerChange reports that a circuit changed its state.
type BreakerChange struct {
	Key      string
	From, To string // "closed", "open", "half-open"
}

// Quota reports the level of a quota for one key.
type Quota struct {
	Quota, Key  string
	Limit, Left int64
	Resets      time.Time // zero: never
}

type contextKey struct{}

// With returns a context whose calls report to h, and to the hooks that ctx
// had before, which are called first. A nil h returns ctx.
func With(ctx context.Context, h *Hooks) context.Context {
	if h == nil {
		return ctx
	}
	if old := From(ctx); old != nil && old != h {
		h = join(old, h)
	}
	return context.WithValue(ctx, contextKey{}, h)
}

// From returns the hooks that ctx carries, or nil. They must not be changed.
func From(ctx context.Context) *Hooks {
	h, _ := ctx.Value(contextKey{}).(*Hooks)
	return h
}

// Host is how events name a request's destination: scheme://host:port, with no
// user, path or query.
func Host(r *http.Request) string { return origin.Of(r.URL) }

func join(a, b *Hooks) *Hooks {
	return &Hooks{
		Paced:          both(a.Paced, b.Paced),
		Attempted:      both(a.Attempted, b.Attempted),
		Answered:       both(a.Answered, b.Answered),
		Retried:        both(a.Retried, b.Retried),
		GaveUp:         both(a.GaveUp, b.GaveUp),
		BreakerChanged: both(a.BreakerChanged, b.BreakerChanged),
		QuotaLow:       both(a.QuotaLow, b.QuotaLow),
		QuotaSpent:     both(a.QuotaSpent, b.QuotaSpent),
	}
}

func both[E any](a, b func(context.Context, E)) func(context.Context, E) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(ctx context.Context, e E) { a(ctx, e); b(ctx, e) }
}
