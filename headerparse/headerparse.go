package headerparse

import (
	"net/http"
	"strings"
	"time"
)

// Unknown is the value of a number that was not told.
const Unknown = -1

// Limit is one limit as a response describes it. Numbers that it does not
// tell are [Unknown].
type Limit struct {
	// Name is which of the provider's limits this is, in lower case unless
	// the provider quotes it: "tokens", "minute", "default". Empty if it has
	// no name.
	Name string

	// Unit is what the limit counts, such as "requests", "tokens" or
	// "percent". Empty if the response does not say.
	Unit string

	// Quota is how much the limit allows in all, in units.
	Quota float64

	// Remaining is how much of it is left, in units. A limit is spent if this
	// is zero.
	Remaining float64

	// Reset is the time from receipt until there is more, at most 366 days.
	// Whether that is the full quota or one unit, only the provider knows.
	Reset time.Duration

	// Window is the time over which Quota is counted, at most 366 days. It is
	// no wait: a limit may be spent long before its window began anew.
	Window time.Duration
}

// Signal is what one response says about limits. It holds parts of the
// header's values, and is not changed by later changes of the header.
type Signal struct {
	// Status is the status code that was given to Parse.
	Status int

	// Wait is how long the response says to wait, from receipt: from 0 to 366
	// days, and to the nanosecond as told. It means something only if Told.
	Wait time.Duration

	// Told reports whether the response says how long to wait, even if that
	// is zero. If it does not, the caller's own backoff is all there is.
	Told bool

	// Source is the canonical name of the field that Wait comes from, as
	// [net/http.CanonicalHeaderKey] writes it: "Retry-After", "Ratelimit".
	// Empty if nothing is told.
	Source string

	// By is the index in Limits of the limit that governs: the one that Wait
	// comes from or, under Retry-After, the spent one that fits it best. It is
	// -1 if there is none.
	By int

	// Limits are the limits that the response describes, at most 32, in an
	// order that only their names determine. Nil if there are none.
	Limits []Limit
}

// Parse reads what a response with this status and header says about limits.
//
// now is when the response was received. Instants are compared with the Date
// field instead if there is one, so the result does not depend on the client's
// clock where that can be avoided; a zero now means that Parse reads the clock
// itself, and only if it has to. h may be nil, may have names that are not
// canonical, and is not changed.
//
// Parse never fails: a field that cannot be read tells nothing, whatever the
// others say. Parsing a header without limit fields allocates nothing.
func Parse(status int, h http.Header, now time.Time) Signal {
	if Silent(h) {
		return Signal{Status: status, By: -1}
	}
	return read(status, h, now)
}

// Silent reports that Parse would find nothing in h. It is quick, and takes
// few headers without limits for one that may have some.
func Silent(h http.Header) bool {
	if len(h) == 0 {
		return true
	}
	for name := range h {
		if !isHarmless(name) && mightTell(name) {
			return false
		}
	}
	return true
}

// read is Parse for a header that may have limit fields.
func read(status int, h http.Header, now time.Time) Signal {
	s := Signal{Status: status, By: -1}
	var space [24]field
	fields, date, age := collect(h, space[:0])
	if len(fields) == 0 {
		return s
	}
	c := clock{at: now, date: date, age: readAge(age)}
	var l ledger
	if c.age == 0 {
		// A stored response tells of an old moment; draft-11 section 7.3.
		l.read(fields, &c)
	}
	s.Limits = l.limits
	if w, source, ok := adviceOf(fields, &c); ok {
		s.Wait, s.Told, s.Source = w, true, http.CanonicalHeaderKey(source)
		s.By = l.nearest(status, w)
		return s
	}
	for _, ietf := range [...]bool{true, false} {
		if by, ok := l.longest(status, ietf); ok {
			s.Wait, s.Told, s.By = l.limits[by].Reset, true, by
			s.Source = http.CanonicalHeaderKey(l.sources[by].field)
			return s
		}
	}
	return s
}

// readAge is how long the response was stored, and 0 if it was not.
func readAge(s string) time.Duration {
	s, _, _ = strings.Cut(s, ",")
	n, ok := parseNumber(trim(s))
	if !ok || n.zero() {
		return 0
	}
	if d, ok := n.times(time.Second); ok {
		return d
	}
	return horizon
}
