package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// kindOfStatus is the column of statuses in the package comment's table.
func kindOfStatus(r *http.Response) kind {
	if r.StatusCode < 400 {
		return final
	}
	k := final
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusTooEarly:
		k = unheard
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		k = transient
	case http.StatusConflict:
		k = conflict
	}
	if yes, no := advice(r.Header); no && k != final {
		return turnedOff
	} else if yes && (k == final || k == conflict) {
		return transient
	}
	return k
}

// advice reads what the provider itself says about a repeat. A replayed answer
// is the stored outcome of the effect: it stays as it is. A provider that asks
// for a repeat knows that it helps, but not whether the call is safe to repeat.
func advice(h http.Header) (yes, no bool) {
	if is(h, "Idempotent-Replayed", "true") {
		return false, true
	}
	for _, name := range [...]string{"X-Should-Retry", "Stripe-Should-Retry"} {
		yes = yes || is(h, name, "true")
		no = no || is(h, name, "false")
	}
	return yes && !no, no
}

// is reports whether a field in canonical form has a value, in any case.
func is(h http.Header, name, value string) bool {
	v := h[name]
	return len(v) > 0 && strings.EqualFold(strings.TrimSpace(v[0]), value)
}

// kindOfError classifies an error of a base whose caller's context goes on.
// http.Transport reports most failures of a connection by errors without a
// type, so what is not known to be hopeless counts as one.
func kindOfError(err error) kind {
	switch {
	case isRefusal(err):
		return refused
	case isBadCertificate(err), errors.Is(err, http.ErrSchemeMismatch):
		return turnedOff
	}
	return transient
}

func isBadCertificate(err error) bool {
	// One check for the common wrapper, the rest for TLS stacks and dialers
	// that return what crypto/x509 said as it is.
	return has[*tls.CertificateVerificationError](err) ||
		has[x509.UnknownAuthorityError](err) || has[x509.HostnameError](err) ||
		has[x509.CertificateInvalidError](err) || has[x509.SystemRootsError](err)
}

func has[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// isMalformed reports whether the request could never be sent by anybody.
// http.Transport has no types for these, only the texts.
func isMalformed(r *http.Request, err error) bool {
	if r.URL == nil || r.Header == nil || r.URL.Host == "" {
		return true
	}
	return throughout(err, func(err error) (yes, sure bool) {
		text := err.Error()
		for _, prefix := range [...]string{
			"unsupported protocol scheme", "net/http: invalid header", "net/http: invalid trailer",
			"net/http: invalid method", "http: no Host in request URL", "http: invalid Host header",
			"net/http: can't write control character in Request.URL", "http: Request.ContentLength=",
			"http: ContentLength=", "http2: request body larger than specified content length",
			"http2: invalid request", "http2: invalid HTTP", "http2: invalid Host header",
			"http2: invalid Upgrade request", "http2: invalid Transfer-Encoding request",
			"http2: invalid Connection request", "http2: invalid Trailer key", "http2: unsupported scheme",
		} {
			if strings.HasPrefix(text, prefix) {
				return true, true
			}
		}
		return false, false
	})
}

// isRefusal reports whether the error says that this client refused to send.
// The rooms that refuse do not know each other; they say so by this method.
func isRefusal(err error) bool {
	return throughout(err, func(err error) (yes, sure bool) {
		if r, ok := err.(interface{ Refused() bool }); ok {
			return r.Refused(), true
		}
		return unsentBelow(err)
	})
}

// openFor reports how long the open circuit that refused stays open; of several,
// the longest.
func openFor(err error) (d time.Duration, ok bool) {
	ok = throughout(err, func(err error) (yes, sure bool) {
		if o, is := err.(interface{ OpenFor() time.Duration }); is {
			d = max(d, o.OpenFor())
			return true, true
		}
		_, below := unsentBelow(err)
		return false, below
	})
	if !ok {
		return 0, false
	}
	return d, true
}

// hasEnded reports whether the caller wants no more of it.
func hasEnded(r *http.Request) bool {
	if r.Context().Err() != nil {
		return true
	}
	select {
	//lint:ignore SA1019 Deprecated, yet whoever uses it means it.
	case <-r.Cancel:
		return true
	default:
		return false
	}
}

// isIdempotent reports whether RFC 9110 section 9.2.2 calls the method
// idempotent; QUERY is safe by its own specification.
func isIdempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete, "QUERY":
		return true
	}
	return false
}

// hasKey reports whether the caller set an idempotency key. net/http repeats
// such requests by itself, under these two names. An empty list of values asks
// for that without sending a key: it vouches for nothing here.
func hasKey(h http.Header) bool {
	return hasValue(h["Idempotency-Key"]) || hasValue(h["X-Idempotency-Key"])
}

func hasValue(v []string) bool { return len(v) > 0 && v[0] != "" }

// isTimeout reports whether an error calls itself a timeout.
func isTimeout(err error) bool {
	var t interface {
		error
		Timeout() bool
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// withoutURL unwraps the *url.Error that a base made of an http.Client returns,
// for its message shows path and query.
func withoutURL(err error) error {
	for {
		u, ok := err.(*url.Error)
		if !ok || u.Err == nil {
			return err
		}
		err = u.Err
	}
}
