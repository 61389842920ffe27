package breaker

import (
	"fmt"
	"time"
)

// An OpenError refuses a call because its circuit is open, or because a probe
// is out. Nothing was sent.
type OpenError struct {
	Key        string
	RetryAfter time.Duration // as [Breaker.Open] reports what remains; over zero
}

// Error names the key and the time that remains.
func (e *OpenError) Error() string {
	return fmt.Sprintf("breaker: the circuit of %q is open, ask again in %v", e.Key, e.RetryAfter)
}

// OpenFor returns RetryAfter, for callers that do not import this package.
func (e *OpenError) OpenFor() time.Duration { return e.RetryAfter }

// Refused reports true: this client itself did not send the call.
func (e *OpenError) Refused() bool { return true }
