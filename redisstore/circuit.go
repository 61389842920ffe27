package redisstore

import (
	"errors"
	"time"

	"github.com/politehttp/polite/breaker"
)

// How soon a store that is back is noticed: within maxOpenFor and one timeout.
// Meanwhile one decision in maxOpenFor waits for the store, and all others are
// answered without it.
const (
	openAfter  = 5 // failures in a row
	openFor    = 100 * time.Millisecond
	maxOpenFor = 400 * time.Millisecond
)

// theStore is the key of the one circuit of a Redis that is no cluster; those of
// a cluster are in part.go.
const theStore = "redis"

// newBreaker returns the breaker for a store with this timeout.
func newBreaker(timeout time.Duration) *breaker.Breaker {
	b := &breaker.Breaker{Failures: openAfter, OpenFor: openFor, MaxOpenFor: maxOpenFor}
	if timeout > 0 {
		// A probe reports in time, unless its caller gave up before.
		b.ProbeTimeout = 2 * timeout
	}
	return b
}

// judge says what the end of a call tells about the store.
func judge(err error) breaker.Outcome {
	if err == nil {
		return breaker.Success
	}
	if reply, ok := replied(err); ok {
		if ofTheStore[reply.Code()] || reply.Text == tooManyClients {
			return breaker.Failure
		}
		// It is about this script or this key; the store is well.
		return breaker.Success
	}
	var broken *brokenError
	if errors.As(err, &broken) {
		return breaker.Neutral
	}
	return breaker.Unreachable
}

// ofTheStore are the answers, by their first word, that any script would have
// got, whatever its keys. TRYAGAIN is not among them: it is about one slot that
// moves; nor is NOPERM, which may be about one key.
var ofTheStore = map[string]bool{
	"BUSY":        true, // a script runs for too long
	"CLUSTERDOWN": true,
	"LOADING":     true,
	"MASTERDOWN":  true,
	"MISCONF":     true, // it cannot write its snapshot and therefore nothing
	"NOAUTH":      true,
	"NOREPLICAS":  true,
	"OOM":         true,
	"READONLY":    true,
	"WRONGPASS":   true,
}

const tooManyClients = "ERR max number of clients reached"
