package pipenet

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Serve answers with h on a new listener until the test ends, and returns it
// with a client transport that dials nothing else. Any host name leads there:
// http://provider.test/.
func Serve(tb testing.TB, h http.Handler) (*Listener, *http.Transport) {
	tb.Helper()
	l := Listen()
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	base := &http.Transport{DialContext: l.DialContext}
	tb.Cleanup(func() {
		base.CloseIdleConnections()
		s.Close()
	})
	return l, base
}
