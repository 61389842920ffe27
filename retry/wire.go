package retry

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The recommended names of the fields that a [Policy] can send. A server that
// has this module's shed in front of it reads them without being told.
const (
	AttemptHeader  = "Request-Attempt"    // for Policy.AttemptHeader
	DeadlineHeader = "Request-Timeout-Ms" // for Policy.DeadlineHeader
)

// tells reports whether the policy tells the provider anything.
func (p *Policy) tells() bool { return p.AttemptHeader != "" || p.DeadlineHeader != "" }

// telling returns a copy of h, the header of r, which is sent at an instant and
// has so long if limit is not zero, with the fields that the policy adds. What
// is in h stays.
func (a *Attempt) telling(h http.Header, r *http.Request, limit time.Duration) http.Header {
	p := a.call.policy
	with := maps.Clone(h)
	if with == nil {
		with = make(http.Header, 2)
	}
	if name := p.AttemptHeader; name != "" && !isSet(h, name) {
		with.Set(name, strconv.Itoa(a.N))
	}
	if name := p.DeadlineHeader; name != "" && !isSet(h, name) {
		if left := a.left(r, limit); left > 0 {
			with.Set(name, strconv.FormatInt(max(1, left.Milliseconds()), 10))
		}
	}
	return with
}

// isSet reports whether h has the field, be it without a value, however its name
// is written: what was set past http.Header's methods goes out as it is, too.
func isSet(h http.Header, field string) bool {
	for name := range h {
		if strings.EqualFold(name, field) {
			return true
		}
	}
	return false
}

// left is how long the attempt has; zero: as long as it wants.
func (a *Attempt) left(r *http.Request, limit time.Duration) time.Duration {
	if limit > 0 { // only where it ends before the caller's deadline
		return limit
	}
	deadline, ok := r.Context().Deadline()
	if !ok {
		return 0
	}
	return max(1, deadline.Sub(a.Began()))
}
