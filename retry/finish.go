package retry

import (
	"net/http"
	"slices"
	"time"

	"github.com/politehttp/polite/headerparse"
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
	c.reset()
	return resp, neverProcessed, err
}

// finishAtOnce is finish for a first attempt that went well.
func (c *Call) finishAtOnce(resp *http.Response) *http.Response {
	c.succeed()
	if resp.Request != c.Request {
		resp.Request = c.Request
	}
	if !c.handed && c.Request.Body != nil {
		c.Request.Body.Close()
	}
	c.reset()
	return resp
}

// reset makes the Call as good as new. What every call writes is few fields:
// to clear the whole would be dear while the garbage collector runs.
func (c *Call) reset() {
	if c.tired {
		c.run = run{}
		clear(c.tries)
		c.tries = c.tries[:0]
		return
	}
	a := &c.attempt
	a.Request, a.sent, a.timed = nil, false, false
	if a.Parsed {
		a.Signal, a.Parsed = headerparse.Signal{}, false
	}
	if !a.Started.IsZero() || !a.Ended.IsZero() {
		a.Started, a.Ended = time.Time{}, time.Time{}
	}
	c.sent, c.handed, c.opened = 0, false, false
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
