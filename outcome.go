package polite

import (
	"context"
	"errors"
	"net/http"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/retry"
)

// Outcome is how the breaker counts an answer unless Transport.Outcome says
// otherwise: 500, 502, 503 and 504 are failures, 429, and 503 with a told wait,
// are throttles, and every other answer shows that the host is well.
func Outcome(status int, told bool) breaker.Outcome {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && told:
		return breaker.Throttled
	case status == http.StatusInternalServerError, status == http.StatusBadGateway,
		status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return breaker.Failure
	}
	return breaker.Success
}

// throttledBy503 takes every 503 for a throttle, for many providers answer so
// where others say 429, and the pacer and the retry budget see to throttles.
func throttledBy503(status int, told bool) breaker.Outcome {
	return Outcome(status, told || status == http.StatusServiceUnavailable)
}

// outcomeOf is how the breaker counts a try without an answer. The caller's
// cancellation says nothing about the host, nor does a request that cannot be
// sent or whose own body fails, and a deadline of the caller's
// that the host missed does not show that it cannot be reached.
func outcomeOf(ctx context.Context, a *retry.Attempt, err error) breaker.Outcome {
	switch {
	case a.Refused, a.Faulty, errors.Is(ctx.Err(), context.Canceled):
		return breaker.Neutral
	case ctx.Err() != nil:
		return breaker.Failure
	}
	return breaker.Unreachable
}

// missed reports whether an attempt got no answer in time, by AttemptTimeout, by
// the caller's deadline, or by a time limit of Base.
func missed(ctx context.Context, a *retry.Attempt, err error) bool {
	if a.Refused || a.Faulty || errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	var t interface{ Timeout() bool }
	return ctx.Err() != nil || errors.As(err, &t) && t.Timeout()
}
