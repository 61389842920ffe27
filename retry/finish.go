package retry

import (
	"net/http"
	"slices"

	"github.com/politehttp/polite/observe"
)

// finish turns what the last attempt came to into what the caller gets, and
// makes the Call ready for another.
func (c *Call) finish() (resp *http.Response, neverProcessed bool, err error) {
	a := &c.attempt
	switch {
	case a.Err == nil && !c.interrupted:
		resp = a.Response
		if resp.Request != c.Request {
			resp.Request = c.Request
		}
	case c.sent == 0 && !c.interrupted:
		err, neverProcessed = a.Err, true // refused here, and nothing else happened
	default:
		err, neverProcessed = c.failure(), !c.processed
	}
	if c.body != nil { // of an attempt that was not sent
		c.body.Close()
	}
	if !c.handed && c.Request.Body != nil {
		c.Request.Body.Close()
	}
	c.run = run{}
	if len(c.tries) > 0 {
		clear(c.tries)
		c.tries = c.tries[:0]
	}
	return resp, neverProcessed, err
}

// failure makes the error of a call, which shares no memory with it.
func (c *Call) failure() *Error {
	event := c.attempt.event()
	e := &Error{
		Method: event.Method, Host: event.Host,
		Tries: slices.Clone(c.tries), Sent: c.sent,
		Status: c.status, Signal: c.signal,
		Reason: c.verdict.reason,
	}
	if c.verdict.reason == observe.Cancelled {
		e.ended = endOf(c.Request.Context())
	}
	return e
}
