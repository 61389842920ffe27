package polite_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/pacer"
)

// A place in flight is taken until the answer is read, closed or abandoned.
func TestInFlightEnds(t *testing.T) {
	for name, finish := range map[string]func(resp *http.Response, cancel func()){
		"at the end of the body":   func(resp *http.Response, _ func()) { io.Copy(io.Discard, resp.Body) },
		"when the body is closed":  func(resp *http.Response, _ func()) { resp.Body.Close(); resp.Body.Close() },
		"when the context ends":    func(_ *http.Response, cancel func()) { cancel() },
		"once, when all three are": func(resp *http.Response, cancel func()) { cancel(); io.Copy(io.Discard, resp.Body); resp.Body.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProvider(answers(200))
				tr := &polite.Transport{Base: p, Pacer: &pacer.Pacer{MaxInFlight: 1}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
				require.NoError(t, err)

				left := make(chan struct{})
				go func() {
					defer close(left)
					for range 2 { // the second needs the place of the first: a double release would hide here
						resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
						if assert.NoError(t, err) {
							resp.Body.Close()
						}
					}
				}()
				synctest.Wait()
				assert.Len(t, p.at, 1, "a second call left while the first was in flight")
				finish(resp, cancel)
				<-left
				assert.Len(t, p.at, 3)
			})
		})
	}
}

// After 101 the body is a connection: it stays writable, and the call is over.
func TestSwitchingProtocols(t *testing.T) {
	type conn struct {
		io.ReadCloser
		io.Writer
	}
	p := newProvider(func(_ int, r *http.Request) (*http.Response, error) {
		resp := reply(r, http.StatusSwitchingProtocols)
		resp.Body = conn{resp.Body, io.Discard}
		return resp, nil
	})
	tr := polite.NewTransport(p)
	tr.Pacer.MaxInFlight = 1
	for range 3 {
		resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.NoError(t, err)
		assert.Implements(t, (*io.ReadWriteCloser)(nil), resp.Body)
	}
}
