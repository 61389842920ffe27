package retry

import (
	"context"
	"crypto/tls"
	"errors"
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
	for e := err; ; {
		op, ok := errors.AsType[*net.OpError](e)
		if !ok {
			break
		}
		switch op.Op {
		case "dial", "proxyconnect", "socks connect":
			return true
		}
		e = op.Err
	}
	return has[*tls.CertificateVerificationError](err) || isUnprocessedStream(err)
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
// stream is older. Where there is no type, the whole text or its beginning is
// compared, for a server may choose what stands further behind.
func isUnprocessedStream(err error) bool {
	if s, ok := errors.AsType[streamError](err); ok {
		return s.Code == refusedStream
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		text := e.Error()
		switch text {
		case "http2: Transport received Server's graceful shutdown GOAWAY",
			"http2: client conn not usable":
			return true
		}
		if strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:") {
			return true
		}
		// golang.org/x/net/http2, and net/http before it had the method above.
		if rest, ok := strings.CutPrefix(text, "stream error: stream ID "); ok {
			_, rest, _ = strings.Cut(rest, "; ")
			return rest == "REFUSED_STREAM" || strings.HasPrefix(rest, "REFUSED_STREAM;")
		}
	}
	return false
}

// tracer watches whether a connection was got for an attempt. Events may come
// from other goroutines, even after the attempt.
type tracer struct{ wanted, got atomic.Bool }

// with installs the tracer in front of the caller's own trace, if any.
func (t *tracer) with(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { t.wanted.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { t.got.Store(true) },
	})
}

// provesUnsent reports whether a connection was wanted and never got. A base
// that reports no events proves nothing.
func (t *tracer) provesUnsent() bool { return t.wanted.Load() && !t.got.Load() }
