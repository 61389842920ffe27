package limiter

import (
	"context"
	"time"
)

// Charge is units to be charged to one key of one limit.
type Charge struct {
	Limit *Limit
	Key   string
	Cost  int64 // 0 asks whether 1 would pass, and charges nothing
}

// Decision is the answer to one or several charges. Refusals are decisions, not
// errors.
type Decision struct {
	// Allowed says that every charge was admitted. Otherwise none was made.
	Allowed bool
	// Never says that this cost can never be admitted; RetryAfter is meaningless.
	Never bool
	// Overflow says that the store is full of keys in use, so that this one was
	// charged together with others, see [Memory].
	Overflow bool
	// By is the limit that decided: the one that refuses longest, or the tightest.
	By *Limit
	// Quota is By's quota, and Remaining the whole units that it would still
	// admit now, after this decision.
	Quota, Remaining int64
	// RetryAfter is the shortest time after which the same charges would be
	// admitted if nothing else is; 0 if they were.
	RetryAfter time.Duration
	// ResetAfter is how long until By is as if nothing had ever been admitted.
	ResetAfter time.Duration
	// Delay is how long an admitted request of a LeakyQueue is to wait before it
	// leaves.
	Delay time.Duration
	// Degraded is why the store could not be asked, if the limit's FailurePolicy
	// has answered instead.
	Degraded error
	// Each has a decision per charge, in order; nil for a single charge.
	Each []Decision
}

// Store keeps the state of limits. [Memory] is one.
type Store interface {
	// Take admits only if every charge fits, and then makes all; otherwise it
	// makes none. The same limit and key twice are summed first. It fails only if
	// the store does, or the charges make no sense; a refusal is no error.
	//
	// A store that knows what a limit's OnFailure asks for answers itself, with
	// Degraded set. If it returns an error instead, a Guard decides: for Local as
	// if nothing had been used before, and by this process alone. A store brings
	// its own timeout, for a Guard waits as long as the request does. If it also has
	// CheckLimits(...*Limit) error, a Guard asks that at the start for the limits
	// that it will charge.
	Take(ctx context.Context, charges ...Charge) (Decision, error)
	// Refund gives units back, never more than are in use. Giving back once is
	// the caller's duty, and so is doing it at once, for a request that was not
	// served after all. A store does not know which units they were: later they may
	// be others', of a window that has begun meanwhile; what a bucket has leaked
	// since is given back twice; and of a sliding window the latest go, so that
	// those which stay are forgotten earlier.
	Refund(ctx context.Context, charges ...Charge) error
}
