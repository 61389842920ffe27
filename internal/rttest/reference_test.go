package rttest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// reference is a small transport that retries and keeps the contract. Its
// faults are places where it would be easy not to.
type reference struct {
	base  http.RoundTripper
	fault fault
}

type fault int

const (
	none               fault = iota
	cloneRequest             // Request.Clone copies the Trailer map
	keepCopy                 // a GetBody result of an attempt that is never sent
	readTwice                // the same body for every attempt
	seekBack                 // rewind the body itself
	sleepThrough             // a wait that nothing ends
	loseCause                // only context.Canceled
	loseCancel               // only the cause
	leaveOpen                // dropped responses
	drainAll                 // to the end, however far
	drainNone                // a connection for every attempt
	getOnly                  // Method "GET", but not ""
	forgetCancel             // a context for each attempt, never cancelled
	panicOnNilBody           // Body.Close without a look
	closeIdleOnFailure       // as go-retryablehttp does
	retryGetBodyError        // close the body of the caller once more
)

func (t *reference) RoundTrip(r *http.Request) (*http.Response, error) {
	body := r.Body
	for n := 1; ; n++ {
		attempt := r.WithContext(r.Context()) // shallow: Trailer is the caller's
		if t.fault == cloneRequest {
			attempt = r.Clone(r.Context())
		}
		if t.fault == forgetCancel {
			ctx, cancel := context.WithCancel(r.Context())
			_ = context.AfterFunc(ctx, cancel)
			attempt = r.WithContext(ctx)
		}
		attempt.Body = body
		resp, err := t.base.RoundTrip(attempt)
		if t.fault == closeIdleOnFailure && err != nil {
			t.CloseIdleConnections()
		}
		if resp != nil {
			resp.Request = r
			if resp.Body == nil && t.fault != panicOnNilBody {
				resp.Body = http.NoBody
			}
		}
		if n == 4 || !t.retryable(r, resp, err) {
			return resp, err
		}
		wait := told(resp)
		if d, ok := r.Context().Deadline(); ok && time.Until(d) <= wait {
			return resp, err
		}
		next, ok := t.rewind(r)
		if !ok {
			return resp, err
		}
		t.drop(resp)
		if err := t.wait(r.Context(), wait); err != nil {
			if next != nil && t.fault != keepCopy {
				_ = next.Close()
			}
			return nil, err
		}
		body = next
	}
}

func (t *reference) retryable(r *http.Request, resp *http.Response, err error) bool {
	switch {
	case r.URL == nil || r.Header == nil || r.Context().Err() != nil:
		return false
	case t.fault == getOnly && r.Method == "":
		return false
	case resp != nil:
		return resp.StatusCode == 429 || resp.StatusCode == 503
	}
	return errors.As(err, new(interface{ Temporary() bool }))
}

func told(resp *http.Response) time.Duration {
	if resp != nil {
		if s, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil {
			return min(time.Duration(s)*time.Second, 24*time.Hour)
		}
	}
	return 100 * time.Millisecond
}

func (t *reference) rewind(r *http.Request) (io.ReadCloser, bool) {
	switch {
	case r.Body == nil:
		return nil, true
	case t.fault == readTwice:
		return r.Body, true
	case t.fault == seekBack:
		_, err := r.Body.(io.Seeker).Seek(0, io.SeekStart)
		return r.Body, err == nil
	case r.GetBody == nil:
		return nil, false
	}
	b, err := r.GetBody()
	if err != nil && t.fault == retryGetBodyError {
		_ = r.Body.Close()
	}
	return b, err == nil
}

// drop reads a response that nobody will see, for 50 ms and 64 KiB at most.
func (t *reference) drop(resp *http.Response) {
	if resp == nil || t.fault == leaveOpen {
		return
	}
	limit := int64(64 << 10)
	if t.fault == drainAll {
		limit = 1 << 40
	} else {
		stop := time.AfterFunc(50*time.Millisecond, func() { _ = resp.Body.Close() })
		defer stop.Stop()
	}
	if t.fault != drainNone {
		_, _ = io.CopyN(io.Discard, resp.Body, limit)
	}
	_ = resp.Body.Close()
}

func (t *reference) wait(ctx context.Context, d time.Duration) error {
	if t.fault == sleepThrough {
		time.Sleep(d)
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		switch t.fault {
		case loseCause:
			return ctx.Err()
		case loseCancel:
			return context.Cause(ctx)
		}
		return errors.Join(ctx.Err(), context.Cause(ctx))
	}
}

func (t *reference) CloseIdleConnections() { closeIdle(t.base) }

func closeIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
