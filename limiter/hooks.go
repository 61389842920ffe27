package limiter

import "net/http"

// Hooks are called by a Guard for what it decides. Every field may be nil, and
// a nil hook costs a comparison. A hook runs in the goroutine of the request,
// outside every lock; it must return soon, for the request waits for it, and
// may be called from many goroutines at once. To count and list what happened,
// use the Hooks of a Monitor.
type Hooks struct {
	Admitted   func(Event) // every charge fitted
	Refused    func(Event) // some did not, or waited in vain: answered 429 or 503, or by Guard.Degrade; only noted if DryRun
	Degraded   func(Event) // the store failed, and the limits' policy answered; Admitted or Refused follows
	Overflowed func(Event) // a charge fell into an overflow bucket, since the store is full of keys in use
}

// Event is one decision about one request.
type Event struct {
	Request *http.Request
	Pattern string // of the Rule to which Limit belongs

	// The charge that decided: of the limit that refuses longest, or of the one
	// that is tightest. For Overflowed, the one that fell into such a bucket.
	Limit *Limit
	Key   string
	Cost  int64

	Decision Decision
	Charges  []Charge // all that were asked for, in the order of Decision.Each. Both are valid during the call only
	DryRun   bool     // the rules are on trial: a refusal is only noted
}

// Both returns hooks that call those of h and then those of other. Either may
// be nil.
func (h *Hooks) Both(other *Hooks) *Hooks {
	if h == nil || other == nil {
		if h == nil {
			return other
		}
		return h
	}
	both := func(a, b func(Event)) func(Event) {
		switch {
		case a == nil:
			return b
		case b == nil:
			return a
		}
		return func(e Event) { a(e); b(e) }
	}
	return &Hooks{
		Admitted:   both(h.Admitted, other.Admitted),
		Refused:    both(h.Refused, other.Refused),
		Degraded:   both(h.Degraded, other.Degraded),
		Overflowed: both(h.Overflowed, other.Overflowed),
	}
}
