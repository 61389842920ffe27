package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/limiter"
)

// Store keeps limits, paces and quotas in Redis, for every process that uses the
// same Prefix there. Its zero value with a Client is ready. It must not be
// copied, and its fields must not change after first use. It starts nothing and
// needs no Close: the connections are the Client's, see [Rueidis].
type Store struct {
	// Client is how Redis is reached. Required: see [Rueidis].
	Client Client

	// Prefix is what the name of every key begins with. It holds no brace.
	// Zero: "polite".
	Prefix string

	// Timeout bounds one decision, whatever the client library does; the caller's
	// context may end it sooner. Zero: 50 ms. Negative: the context alone.
	Timeout time.Duration

	// Processes is how many share the limits. While Redis fails, each admits its
	// share of a limit whose OnFailure is limiter.Local, and sends its share of a
	// pace. Zero: 1.
	Processes int64

	// NearKeys is how many keys that were refused are remembered in this process,
	// which are then refused without a round trip. What is left of a log or of
	// buckets is then as it was when Redis was asked. Zero: 10,000. Negative: none.
	NearKeys int

	// Tag says what of a charge decides which server of a Redis Cluster keeps it.
	// Charges of one decision must have one tag, as only one server can make them
	// all or none; others are an error, which a limiter.Guard takes for a store that
	// fails. So if every user belongs to a tenant, the tenant is the tag of both, and
	// is found in both their keys. It is not asked of a limit that is Global. It must
	// always say the same of the same key; and "" is as nil. Nil: one tag for all of
	// this Prefix, so that anything can be charged with anything and one server has
	// all the limits.
	Tag func(limiter.Charge) string

	// OnDegraded is told why, each time that the limits' OnFailure has answered in
	// place of Redis, a process has to keep a pace by itself, or a quota refuses
	// because Redis fails; and of charges and paces that cannot be kept here at all.
	// By default a limit is open while Redis fails, so without it, or
	// limiter.Hooks.Degraded, nobody notices. That may be thousands of times a
	// second: a log wants one line for many. It is called by the goroutine that
	// decides, and must not block. Nil: nobody.
	OnDegraded func(error)

	circuit circuit // whether Redis is there; see call.go

	plans  plans
	near   shelf // of keys that were refused
	levels shelf // of keys under Local
	local  limiter.Memory
	shares shares

	skew atomic.Int64 // nanoseconds: how far Redis's clock was from this one, last it mattered
	now  func() int64 // for tests: the time in place of Redis's, in microseconds
}

var _ limiter.Store = (*Store)(nil)

const (
	defaultPrefix  = "polite"
	defaultTimeout = 50 * time.Millisecond
	defaultNear    = 10_000
)

// Check says what is wrong with the fields. It sends nothing.
func (s *Store) Check() error {
	switch {
	case s.Client == nil:
		return errors.New("redisstore: Store.Client is nil: it is required, and Rueidis makes one")
	case strings.ContainsAny(s.Prefix, "{}"):
		return fmt.Errorf("redisstore: Store.Prefix is %q: it must hold no brace, which would decide which server keeps a key", s.Prefix)
	case s.Processes < 0:
		return fmt.Errorf("redisstore: Store.Processes is %d: at least 1, or 0 for 1", s.Processes)
	}
	return nil
}

func (s *Store) prefix() string {
	if s.Prefix == "" {
		return defaultPrefix
	}
	return s.Prefix
}

func (s *Store) processes() int64 { return max(s.Processes, 1) }
