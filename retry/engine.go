package retry

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/politehttp/polite/observe"
)

// engine runs the loop of a call that is tried again: go-retryablehttp waits,
// and asks it everything else. What the engine sees are stand-ins: a request
// that carries nothing but the caller's context, and an empty response. The real
// ones pass beside it, so that it neither reads bodies, nor follows redirects,
// nor drops the last response, nor puts a URL into an error.
//
// It is entered after the first attempt and the wait that follows it, so that a
// call which needs no retry does not pay for it.
type engine struct {
	call     *Call
	client   retryablehttp.Client
	response http.Response
	request  http.Request // of a caller whose context never ends
	running  retryablehttp.Request
}

var nowhere = &url.URL{Scheme: "http", Host: "retry.invalid"}

func newEngine(c *Call) *engine {
	e := &engine{call: c}
	e.request = http.Request{Method: http.MethodGet, URL: nowhere, Header: http.Header{}}
	e.response = http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	e.client = retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: e},
		RetryMax:     math.MaxInt,
		CheckRetry:   e.checkRetry,
		Backoff:      e.backoff,
		ErrorHandler: e.failed,
	}
	return e
}

// tryAgain makes the further attempts of a call whose first one has failed.
func (c *Call) tryAgain() {
	ctx, stop := c.waitContext()
	defer stop()
	if d := c.verdict.wait; d > 0 {
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			c.interrupt()
			return
		}
	}
	if c.engine == nil {
		c.engine = newEngine(c)
	}
	e := c.engine
	e.running.Request = &e.request
	if ctx.Done() != nil {
		e.running.Request = e.request.WithContext(ctx)
	}
	if _, err := e.client.Do(&e.running); err != nil {
		c.interrupt()
	}
	e.running.Request = nil
}

// waitContext ends when the caller wants no more of the call: by the context,
// or by Request.Cancel.
func (c *Call) waitContext() (ctx context.Context, stop func()) {
	ctx = c.Request.Context()
	//lint:ignore SA1019 Deprecated, yet whoever uses it means it.
	cancelled := c.Request.Cancel
	if cancelled == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-cancelled:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-done }
}

// interrupt notes that the caller's context ended during a wait.
func (c *Call) interrupt() {
	c.interrupted = true
	c.verdict = stop(observe.Cancelled)
	c.report()
}

func (e *engine) RoundTrip(*http.Request) (*http.Response, error) {
	if c := e.call; hasEnded(c.Request) { // a wait of zero and an ended context: either may win
		c.interrupt()
	} else {
		c.attempt.Response, c.attempt.Err = c.send()
		c.decide()
	}
	return &e.response, nil
}

func (e *engine) checkRetry(context.Context, *http.Response, error) (bool, error) {
	return e.call.verdict.again, nil
}

func (e *engine) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration {
	return e.call.verdict.wait
}

func (e *engine) failed(_ *http.Response, err error, _ int) (*http.Response, error) {
	return nil, err
}
