package pipenet

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Serve answers with h on a new listener until the test ends, and returns it
// with a client transport that dials nothing else. Any host name leads there:
// http://provider.test/. The test's end cuts the connections that are left; a
// response that is never closed must have been asked for with tb's own context.
func Serve(tb testing.TB, h http.Handler) (*Listener, *http.Transport) {
	tb.Helper()
	l := Listen()
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	base := &http.Transport{DialContext: l.DialContext, ExpectContinueTimeout: time.Second}
	tb.Cleanup(func() {
		l.Cut() // a handler that still writes to a client that has left must end
		s.Close()
	})
	return l, base
}
