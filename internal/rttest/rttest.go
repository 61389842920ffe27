// Package rttest holds a [net/http.RoundTripper] to its contract.
//
// A transport that wraps another one is easy to write and easy to get wrong:
// what net/http promises in the comments of Client, Request and Response, and
// what programs rely on beyond, is spread over a dozen places and checked
// nowhere. Here it is 26 checks:
//
//	C1–C3   every status is an answer; a response or an error; redirects are the caller's
//	C4–C6   nothing is added; the caller's request is untouched; nil fields do no harm
//	C7–C9   the request's body is closed once, its copies are closed, nothing reads it twice
//	C10     many callers at once
//	C11–C15 the response: body, request, fields, trailer, and the tunnel after a 101
//	C16     request trailers and Expect outlive a retry
//	C17–C19 ending: the body's context, the waits, the client's Timeout
//	C20–C23 goroutines, connections, CloseIdleConnections, httptrace, responses nobody sees
//	C24–C26 the empty method, errors.As, a panic below
//
// [Run] makes a subtest of each, named "C01 …" and so on:
//
//	rttest.Run(t, func(base http.RoundTripper) http.RoundTripper {
//		return &retry.Transport{Base: base}
//	})
//
// Every check runs in a [testing/synctest] bubble of its own and calls wrap
// inside it, so waits cost nothing and what the transport keeps must be made by
// wrap. The checks assume what any sensible policy does: GET and PUT are
// retried on 503 and on a failed dial, at least twice, and a told wait of a
// minute is obeyed.
//
// Not seen here: a timer left behind that holds nothing but itself.
package rttest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Count is how many checks there are.
const Count = 26

// Option says what the transport under test is, beyond its wrap.
type Option func(*options)

type variant struct {
	name string
	wrap func(http.RoundTripper) http.RoundTripper
}

type options struct {
	wrap     func(http.RoundTripper) http.RoundTripper
	adds     []string
	refusing []variant
	waiting  []variant
	noRetry  bool
}

// Adds names request headers that the transport is documented to add.
func Adds(headers ...string) Option {
	return func(o *options) { o.adds = append(o.adds, headers...) }
}

// Refuses adds a variant whose transport refuses its first request by itself,
// without calling base: an open circuit, a full queue, a spent quota.
func Refuses(name string, wrap func(base http.RoundTripper) http.RoundTripper) Option {
	return func(o *options) { o.refusing = append(o.refusing, variant{name, wrap}) }
}

// Waits adds a variant whose transport holds its first request back for at
// least a minute, without calling base: a pace, a hold, a place in flight.
func Waits(name string, wrap func(base http.RoundTripper) http.RoundTripper) Option {
	return func(o *options) { o.waiting = append(o.waiting, variant{name, wrap}) }
}

// WithoutRetry is for a transport that never tries again by itself.
func WithoutRetry() Option {
	return func(o *options) { o.noRetry = true }
}

// Run holds the transport that wrap makes to the contract, a subtest a check.
func Run(t *testing.T, wrap func(base http.RoundTripper) http.RoundTripper, opts ...Option) {
	t.Helper()
	o := &options{wrap: wrap}
	for _, opt := range opts {
		opt(o)
	}
	require.Len(t, checks, Count, "checks")
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, failure := range try(t, c, o) {
				t.Error(failure)
			}
		})
	}
}

type check struct {
	name string
	run  func(*trial)
}

// checks are in the order of the contract; a test asserts their numbers.
var checks = []check{
	{"C01 every status is an answer", everyStatusIsAnAnswer},
	{"C02 a response or an error", aResponseOrAnError},
	{"C03 redirects are returned as they are", redirectsAreReturned},
	{"C04 no cookie, authorization or header is added", nothingIsAdded},
	{"C05 the caller's request is untouched", requestIsUntouched},
	{"C06 nil Header and nil URL do no harm", nilFieldsDoNoHarm},
	{"C07 the request's body is closed exactly once", bodyIsClosedOnce},
	{"C08 every body from GetBody is closed", copiesAreClosed},
	{"C09 no body is read by two attempts", bodyIsNotShared},
	{"C10 many callers at once", manyCallers},
	{"C11 the response's body is never nil", bodyIsNeverNil},
	{"C12 the response names the caller's request", responseNamesRequest},
	{"C13 the response is neither read ahead nor changed", responseIsIntact},
	{"C14 the trailer arrives with the end of the body", trailerArrives},
	{"C15 the body after a 101 can be written to", tunnelIsWritable},
	{"C16 request trailers and Expect outlive a retry", trailersOutliveRetry},
	{"C17 cancelling ends the reading of the body", cancelEndsReading},
	{"C18 cancelling ends every wait", cancelEndsWaits},
	{"C19 the client's Timeout reports Timeout", timeoutReports},
	{"C20 nothing outlives a closed response", nothingOutlives},
	{"C21 CloseIdleConnections reaches the base", closeIdleIsForwarded},
	{"C22 the caller's httptrace fires", traceFires},
	{"C23 responses nobody sees are drained and closed", droppedAreClosed},
	{"C24 the empty method is GET", emptyMethodIsGet},
	{"C25 errors.As finds the cause", errorsAsFindsCause},
	{"C26 a panic below passes through and holds nothing", panicHoldsNothing},
}

// try runs one check and returns what failed.
func try(t *testing.T, c check, o *options) []string {
	t.Helper()
	// A mutex held for ever stops the bubble's clock, and with it the trial's
	// own limit; then the stacks are all there is to see.
	hung := time.AfterFunc(2*time.Minute, func() {
		panic(fmt.Sprintf("rttest: %s still runs after two real minutes: is a mutex held across a wait?", c.name))
	})
	defer hung.Stop()
	return inBubble(t, o, c.run)
}
