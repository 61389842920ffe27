package retry_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/retry"
)

func TestErrorTellsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nested := fmt.Errorf("signing: %w", &url.Error{Op: "Get", URL: "http://auth/?secret=1", Err: io.ErrUnexpectedEOF})
		base := says(status(503, "Retry-After", "2"), fails(errRefused), fails(nested),
			fails(&url.Error{Op: "Get", URL: "http://api.example.com/secret?token=s3cret", Err: errReset}))
		_, err := send(t, base, steady(nil), call(t, "DELETE", ""))

		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "DELETE", e.Method)
		assert.Equal(t, "http://api.example.com:80", e.Host)
		assert.Equal(t, 4, e.Sent)
		assert.Equal(t, 503, e.Status)
		assert.Equal(t, 2*second, e.Signal.Wait)
		assert.Equal(t, observe.Attempts, e.Reason)
		require.Len(t, e.Tries, 4)
		assert.InDelta(t, 2.1, e.Tries[0].Wait.Seconds(), 0.1)
		e.Tries[0].Wait = 2 * second
		assert.Equal(t, []retry.Try{
			{Status: 503, Wait: 2 * second},
			{Err: errRefused, NeverProcessed: true, Wait: 2 * second},
			{Err: nested, Wait: 4 * second},
			{Err: errReset},
		}, e.Tries)
		assert.ErrorIs(t, err, errRefused)
		assert.ErrorIs(t, err, errReset)
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		assert.Same(t, errReset, op, "the last one first")
		assert.False(t, e.Timeout())
		assert.Equal(t, "retry: DELETE http://api.example.com:80 failed after 4 attempts (MaxAttempts are used up): "+
			"status 503, dial tcp: connection refused, signing: unexpected EOF, read tcp: connection reset by peer", err.Error())
	})
}

func TestErrorOfOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &tls.CertificateVerificationError{Err: errors.New("expired")}
		_, err := send(t, says(fails(bad)), nil, call(t, "GET", ""))
		assert.EqualError(t, err, "retry: GET http://api.example.com:80 failed (another attempt would fare no better): tls: failed to verify certificate: expired")
		var e *tls.CertificateVerificationError
		assert.ErrorAs(t, err, &e)
	})
}

func TestErrorOfManyAttemptsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &retry.Policy{Base: -1, MaxAttempts: 1500, Budget: retry.NoBudget}
		_, err := send(t, says(fails(errReset)), p, call(t, "GET", ""))
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, 1500, e.Sent)
		assert.Len(t, e.Tries, 1000)
		assert.Less(t, len(err.Error()), 400)
		assert.Contains(t, err.Error(), "1500 attempts (MaxAttempts are used up): …, read tcp")
	})
}

// cenkalti/backoff#181: what ended the wait, and what had failed before it.
func TestErrorOfACancelledWait(t *testing.T) {
	cause := errors.New("shutting down")
	for _, c := range []struct {
		name  string
		first answer
		wait  time.Duration
	}{
		{"after a response", status(503), 10 * second},
		{"after an error", fails(errReset), 10 * second},
		{"without a wait", fails(errReset), -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				ctx, cancel := context.WithCancelCause(l.with(t.Context()))
				defer cancel(nil)
				base := says(func(r *http.Request) (*http.Response, error) {
					if c.wait < 0 {
						// Cancelled between the decision and the next attempt.
						time.AfterFunc(0, func() { cancel(cause) })
						defer synctest.Wait()
					}
					return c.first(r)
				}, status(200))
				begun := time.Now()
				if c.wait > 0 {
					time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
				}
				p := steady(func(p *retry.Policy) { p.Base = c.wait })
				_, err := send(t, base, p, call(t, "GET", "").WithContext(ctx))
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, cause)
				var e *retry.Error
				require.ErrorAs(t, err, &e)
				require.Len(t, e.Tries, 1)
				assert.Equal(t, observe.Cancelled, e.Reason)
				assert.False(t, e.Timeout())
				assert.Contains(t, err.Error(), "for its context ended (shutting down): ")
				if c.wait > 0 {
					assert.Equal(t, 50*time.Millisecond, time.Since(begun))
				}
				assert.Equal(t, 1, base.attempts())
				require.Len(t, l.gaveUp, 1)
				assert.Equal(t, observe.Cancelled, l.gaveUp[0].Reason)
			})
		})
	}
}

func TestErrorOfADeadlineInAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*second)
		defer cancel()
		_, err := send(t, says(status(503), hangs), steady(nil), call(t, "GET", "").WithContext(ctx))
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.True(t, e.Timeout())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 503, e.Status)
	})
}

// A wait of zero and an ended context: go-retryablehttp may choose either.
func TestCancelledBeforeAnAttemptIsNeverSent(t *testing.T) {
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		base := says(fails(errReset), status(200))
		p := &retry.Policy{Base: -1, Check: func(*retry.Attempt) retry.Verdict {
			return retry.Retry
		}}
		hooked := observe.With(ctx, &observe.Hooks{Retried: func(context.Context, observe.Retry) { cancel() }})
		_, err := send(t, base, p, call(t, "GET", "").WithContext(hooked))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, base.attempts())
	}
}

// The history of one call is not that of the next.
func TestErrorSharesNoMemoryWithLaterCalls(t *testing.T) {
	p := &retry.Policy{Base: -1, MaxAttempts: 3, Budget: retry.NoBudget}
	_, err := send(t, says(fails(errReset)), p, call(t, "GET", ""))
	before := err.Error()
	for range 100 {
		_, _ = send(t, says(fails(errRefused)), p, call(t, "GET", ""))
	}
	assert.Equal(t, before, err.Error())
	assert.NotErrorIs(t, err, errRefused)
}

func TestErrorThroughAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: &retry.Transport{Base: roundTrip(hangs), Policy: steady(nil)}, Timeout: 3 * second}
		_, err := client.Get("http://api.example.com/")
		var e *url.Error
		require.ErrorAs(t, err, &e)
		assert.True(t, e.Timeout())
	})
}

// Of joined errors, each may show a URL.
func TestJoinedErrorsShowNoURL(t *testing.T) {
	secret := func(n int) error {
		return &url.Error{Op: "Get", URL: fmt.Sprintf("http://auth/?secret=%d", n), Err: io.ErrUnexpectedEOF}
	}
	for _, joined := range []error{
		errors.Join(io.EOF, secret(1), secret(2)),
		fmt.Errorf("first %w, then %w", secret(1), fmt.Errorf("b: %w", errors.Join(secret(2), secret(3)))),
		fmt.Errorf("outer: %w", &url.Error{Op: "Get", URL: "http://a/?secret=0", Err: errors.Join(secret(1), secret(2))}),
	} {
		_, err := send(t, says(fails(joined)), nil, call(t, "POST", ""))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.NotContains(t, err.Error(), "secret")
		assert.Contains(t, err.Error(), "unexpected EOF")
	}
}

// Request.Cancel ends a wait as the context does.
func TestRequestCancelEndsTheWait(t *testing.T) {
	for _, fails := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			cancel := make(chan struct{})
			r := call(t, "GET", "")
			//lint:ignore SA1019 Deprecated, yet whoever uses it means it.
			r.Cancel = cancel
			answers := []answer{status(503), status(503, "Retry-After", "100")}
			begun := time.Now()
			go func() {
				time.Sleep(10 * second)
				close(cancel)
			}()
			_, err := send(t, says(answers[2-fails:]...), steady(nil), r)
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 10*second, time.Since(begun))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, observe.Cancelled, e.Reason)
		})
	}
}

// Hooks write logs.
func TestHooksSeeNoURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaky := &url.Error{Op: "Get", URL: "http://auth/?secret=1", Err: io.ErrUnexpectedEOF}
		nested := fmt.Errorf("signing: %w", leaky)
		var l log
		_, err := send(t, says(fails(leaky), fails(nested)), steady(func(p *retry.Policy) { p.MaxAttempts = 2 }), with(call(t, "GET", ""), l.with))
		require.ErrorIs(t, err, leaky)
		var told []string
		for _, a := range l.answers {
			told = append(told, a.Err.Error())
		}
		require.Len(t, l.retried, 1)
		require.Len(t, l.gaveUp, 1)
		told = append(told, l.retried[0].Err.Error(), l.gaveUp[0].Err.Error())
		assert.Equal(t, []string{"unexpected EOF", "signing: unexpected EOF", "unexpected EOF", "signing: unexpected EOF"}, told)
		assert.ErrorIs(t, l.gaveUp[0].Err, leaky)
	})
}
