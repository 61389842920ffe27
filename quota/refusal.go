package quota

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SpentError reports that less than what was asked is left. Nothing was taken.
type SpentError struct {
	Quota  string
	Key    string    // not part of the message
	Limit  int64     // as the Quota's; an Asked over it can never be granted
	Asked  int64     // zero: it was only asked whether 1 is left
	Left   int64     // what would have been granted
	Resets time.Time // when the next period starts; zero: never
}

func (e *SpentError) Error() string {
	if e.Asked > e.Limit {
		return fmt.Sprintf("quota: %q: %d asked, over its Limit of %d", e.Quota, e.Asked, e.Limit)
	}
	until := "and it never resets"
	if !e.Resets.IsZero() {
		until = "until " + e.Resets.Format(time.RFC3339)
	}
	return fmt.Sprintf("quota: %q is spent: %d asked, %d of %d left, %s", e.Quota, max(1, e.Asked), e.Left, e.Limit, until)
}

// Refused reports that this client refused to send.
func (*SpentError) Refused() bool { return true }

// StoreError reports that the count could not be read or made durable, so that
// nothing was granted. It unwraps to the store's own error.
type StoreError struct {
	Quota string
	Err   error
}

func (e *StoreError) Error() string {
	return fmt.Sprintf("quota: %q: the store failed: %v", e.Quota, e.Err)
}

// Unwrap returns the store's error.
func (e *StoreError) Unwrap() error { return e.Err }

// Refused reports that this client refused to send.
func (*StoreError) Refused() bool { return true }

// failed tells a store that failed from a caller who no longer waits.
func (q *Quota) failed(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return err
	}
	return &StoreError{Quota: q.Name, Err: err}
}
