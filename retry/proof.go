package retry

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// provesUnsent reports whether an error proves by itself that the request was
// never processed: no connection came about, or the server said which streams
// it did not touch. Anything else proves nothing, least of all that an answer
// is missing.
func provesUnsent(err error) bool {
	return throughout(err, func(err error) (yes, sure bool) {
		switch e := err.(type) {
		case *net.OpError:
			switch e.Op {
			case "dial", "proxyconnect", "socks connect":
				return true, true
			case "read", "write":
				return false, true // of a connection that there was
			}
		case *tls.CertificateVerificationError:
			return true, true
		}
		return unprocessedStream(err)
	})
}

// throughout reports whether is holds for an error: for the first one of its
// chain that is sure of it, and where the chain forks, for every branch. For
// what joins the errors of several attempts, such as a base that fails over,
// says nothing about the call by one of them.
func throughout(err error, is func(error) (yes, sure bool)) bool {
	for err != nil {
		if yes, sure := is(err); sure {
			return yes
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			branches := e.Unwrap()
			for _, branch := range branches {
				if !throughout(branch, is) {
					return false
				}
			}
			return len(branches) > 0
		default:
			return false
		}
	}
	return false
}

// unsentBelow judges the Error of a Transport further down by whether anything
// was sent: not by what became of one of its attempts.
func unsentBelow(err error) (yes, sure bool) {
	e, ok := err.(*Error)
	return ok && e.Sent == 0, ok
}

// streamError has the fields of net/http's own HTTP/2 stream error, which
// has no exported type but fills such a struct for errors.As (golang/go#53896).
type streamError struct {
	StreamID uint32
	Code     streamCode
	Cause    error
}

type streamCode uint32

const refusedStream streamCode = 0x7 // RFC 9113 section 7

func (e streamError) Error() string { return "stream error" }

// isUnprocessedStream recognises HTTP/2's two promises that a stream was not
// processed (RFC 9113 section 8.7): REFUSED_STREAM, and a GOAWAY whose last
// stream is older.
func isUnprocessedStream(err error) bool { return throughout(err, unprocessedStream) }

// unprocessedStream is isUnprocessedStream for one error of a chain. Where there
// is no type, the whole text or its beginning is compared, for a server may
// choose what stands further behind.
func unprocessedStream(err error) (yes, sure bool) {
	if yes, sure := unsentBelow(err); sure {
		return yes, true
	}
	var s streamError
	if e, ok := err.(interface{ As(any) bool }); ok && e.As(&s) {
		return s.Code == refusedStream, true
	}
	return unprocessedText(err.Error())
}

func unprocessedText(text string) (yes, sure bool) {
	switch text {
	case "http2: Transport received Server's graceful shutdown GOAWAY",
		"http2: client conn not usable":
		return true, true
	}
	if strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:") {
		return true, true
	}
	// What net/http would have sent again, had it had another body. Not all of
	// it is proof: it would try PROTOCOL_ERROR, too.
	if rest, ok := strings.CutPrefix(text, "http2: Transport: cannot retry err ["); ok {
		why, _, _ := strings.Cut(rest, "] after Request.Body was written")
		yes, _ = unprocessedText(why)
		return yes, true
	}
	// golang.org/x/net/http2, and net/http before it had the method above.
	if rest, ok := strings.CutPrefix(text, "stream error: stream ID "); ok {
		_, rest, _ = strings.Cut(rest, "; ")
		return rest == "REFUSED_STREAM" || strings.HasPrefix(rest, "REFUSED_STREAM;"), true
	}
	return false, false
}

// tracer watches whether a connection was got for an attempt. Events may come
// from other goroutines, even after the attempt.
type tracer struct {
	wanted, got atomic.Bool
	up          *upload // set before the attempt is sent; nil: nobody needs its end
}

// with installs the tracer in front of the caller's own trace, if any, and
// upload says whether the end of an upload is to be seen.
func (t *tracer) with(ctx context.Context, upload bool) context.Context {
	hooks := &httptrace.ClientTrace{
		GetConn: func(string) {
			if t.wanted.Store(true); t.up != nil {
				t.up.begun()
			}
		},
		GotConn: func(httptrace.GotConnInfo) { t.got.Store(true) },
	}
	if upload {
		hooks.WroteRequest = func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				t.up.end()
			}
		}
	}
	return httptrace.WithClientTrace(ctx, hooks)
}

// provesUnsent reports whether the attempt that ended with err was never
// processed. A connection that was wanted and never got proves it, and one that
// was got refutes what only the error says: net/http may have sent the request
// once, and then have failed to dial for the repeat of its own. A base that
// reports no events leaves it to the error.
func (t *tracer) provesUnsent(err error) bool {
	switch {
	case t.got.Load():
		return isUnprocessedStream(err)
	case t.wanted.Load():
		return true
	}
	return provesUnsent(err)
}
