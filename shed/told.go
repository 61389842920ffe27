package shed

import (
	"net/http"
	"strings"
	"time"
)

// The header fields that a Gate reads, unless its fields name others. The first
// two are what the client half of this module sends when it is asked to.
const (
	DeadlineHeader = "Request-Timeout-Ms" // how long the client will still wait: whole milliseconds
	AttemptHeader  = "Request-Attempt"    // 1 is the first try
	PriorityHeader = "Request-Priority"   // the name of a Class; read only of peers that are trusted
)

// What is told is clamped to these.
const (
	mostTimeout = 24 * time.Hour
	mostAttempt = 1000
)

// one is the value of a header field that stands there once. Of a field that is
// repeated nobody knows which to believe, so it is as if there were none. name
// is in canonical form.
func one(h http.Header, name string) string {
	if v := h[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// toldTimeout reads how long the client will wait. What is no whole number of
// milliseconds tells nothing.
func toldTimeout(s string) (time.Duration, bool) {
	n, ok := number(s, int(mostTimeout/time.Millisecond))
	return time.Duration(n) * time.Millisecond, ok
}

// toldAttempt reads which try this is: 1 if it is not told.
func toldAttempt(s string) int {
	n, ok := number(s, mostAttempt)
	if !ok {
		return 1
	}
	return max(n, 1)
}

// number reads decimal digits, and nothing else, as a number clamped to most.
func number(s string, most int) (int, bool) {
	n := 0
	for i := range len(s) {
		digit := int(s[i]) - '0'
		if digit < 0 || digit > 9 {
			return 0, false
		}
		n = min(n*10+digit, most) // cannot overflow, and stays at most
	}
	return n, s != ""
}

// longLived reports whether a request asks for an answer that has no end: a
// protocol to upgrade to, a tunnel, a stream of events. It would hold a slot for
// hours, and its time says nothing about how fast the server is.
func longLived(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return r.Method == http.MethodConnect
	}
	// Some clients offer h2c with ordinary requests.
	if to := r.Header["Upgrade"]; len(to) > 0 && !strings.EqualFold(to[0], "h2c") {
		return true
	}
	accept := r.Header["Accept"]
	return len(accept) > 0 && strings.HasPrefix(accept[0], "text/event-stream")
}

// healthPaths are where the usual tools look whether a server lives.
var healthPaths = []string{"/health", "/healthz", "/livez", "/ping", "/readyz", "/up"}

// healthCheck reports whether a request asks for one of the paths by GET or
// HEAD: there are few, so a walk is cheaper than a hash.
func healthCheck(r *http.Request, paths []string) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	for _, p := range paths {
		if r.URL.Path == p {
			return true
		}
	}
	return false
}
