package pacer

import (
	"context"
	"fmt"
	"time"
)

// Refusals that say all by themselves. Like [WaitError] they mean that this
// client did not send, and have a method Refused that returns true.
var (
	// ErrQueueFull: MaxQueue calls are waiting already.
	ErrQueueFull error = refusal("pacer: queue is full: MaxQueue calls are waiting")
	// ErrTooLarge: more units than the Burst that was set can ever hold.
	// Errors match it by errors.Is; their text has the numbers.
	ErrTooLarge error = refusal("pacer: n is over Burst")
)

type refusal string

func (e refusal) Error() string { return string(e) }
func (e refusal) Refused() bool { return true }

type tooLarge struct{ n, burst int64 }

func (e *tooLarge) Error() string {
	return fmt.Sprintf("pacer: n is %d, must be at most Burst, which is %d", e.n, e.burst)
}
func (e *tooLarge) Refused() bool        { return true }
func (e *tooLarge) Is(target error) bool { return target == ErrTooLarge }

// WaitError refuses a call that would have to wait past its context's deadline
// or longer than MaxWait. Nothing was taken. It matches
// context.DeadlineExceeded by errors.Is, for that is what would have happened.
type WaitError struct {
	Wait time.Duration // from the refusal to when the call could have left, as far as was known
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("pacer: a wait of %v would outlive the deadline or MaxWait", e.Wait)
}

// Refused is true: the call was never sent.
func (e *WaitError) Refused() bool { return true }

// Timeout is true, as for any deadline.
func (e *WaitError) Timeout() bool { return true }

// Is matches context.DeadlineExceeded.
func (e *WaitError) Is(target error) bool { return target == context.DeadlineExceeded }

// ended is a wait that its context cut short: the context's error and its cause.
type ended struct{ err, cause error }

func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return err
	}
	return &ended{err, cause}
}

func (e *ended) Error() string   { return fmt.Sprintf("pacer: %v: %v", e.err, e.cause) }
func (e *ended) Unwrap() []error { return []error{e.err, e.cause} }
func (e *ended) Timeout() bool   { return e.err == context.DeadlineExceeded }
