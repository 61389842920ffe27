package pacer

import (
	"context"
	"fmt"
	"time"

	"github.com/politehttp/polite/observe"
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

// WaitError refuses a call that would have to wait past its context's deadline,
// or so long that its answer would come after that (see [Pacer.Took]), or longer
// than MaxWait. Nothing was taken. It matches
// context.DeadlineExceeded by errors.Is, for that is what would have happened.
type WaitError struct {
	Wait    time.Duration  // from the refusal to when the call could have left, as far as was known
	Key     string         // what it would have waited for; not part of the message
	Reason  observe.Reason // and why: observe.Pace, Hold, Learnt, Spread or InFlight; empty if a store refused
	MaxWait time.Duration  // the bound that it is over, counted from the call's arrival; zero: its context's deadline
}

func (e *WaitError) Error() string {
	bound := "outlive its deadline"
	if e.MaxWait > 0 {
		bound = fmt.Sprintf("be over MaxWait, which is %v", e.MaxWait)
	}
	wait := e.Wait.String()
	switch {
	case e.Wait <= 0:
		wait = "unknown length"
	case e.Wait > time.Second:
		wait = e.Wait.Round(time.Millisecond).String()
	}
	if why := waitsFor[e.Reason]; why != "" {
		wait += " for " + why
	}
	return fmt.Sprintf("pacer: not sent: a wait of %s would %s", wait, bound)
}

// waitsFor says what a call waits for, to whoever reads the error.
var waitsFor = map[observe.Reason]string{
	observe.Pace:     "the pace",
	observe.Hold:     "the end of a hold, which the provider asked for,",
	observe.Learnt:   "the pace that refusals taught",
	observe.Spread:   "what little is left until the provider's reset",
	observe.InFlight: "a place in flight",
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
