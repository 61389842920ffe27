package polite_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
)

// An answer at hand is not given up for a try that the pacer would let go too
// late.
func TestAnAnswerIsNotGivenUpForATryThatComesTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		policy *retry.Policy
		room   time.Duration // the context's
	}{
		"deadline":   {&retry.Policy{}, 5 * time.Second},
		"MaxElapsed": {&retry.Policy{MaxElapsed: 5 * time.Second}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProvider(answers(503))
				tr := &polite.Transport{Base: p, Retry: c.policy, Pacer: &pacer.Pacer{Rate: pacer.Per(1, 20*time.Second), Burst: 1}}
				ctx, cancel := context.WithTimeout(t.Context(), c.room)
				defer cancel()
				resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
				require.NoError(t, err)
				assert.Equal(t, 503, resp.StatusCode)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, "body", string(body))
				assert.Equal(t, []time.Duration{0}, p.at)
			})
		})
	}
}

// A told wait that fits the deadline is waited for, and the call succeeds, for
// the jitter of neither retry nor pacer makes it late.
func TestAToldWaitThatFitsTheDeadline(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			p := newProvider(func(n int, r *http.Request) (*http.Response, error) {
				if n == 1 {
					return reply(r, 429, "Retry-After", "10"), nil
				}
				return reply(r, 200), nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
			defer cancel()
			resp, err := polite.NewTransport(p).RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
		})
	}
}

type failingBody struct{ err error }

func (b failingBody) Read([]byte) (int, error) { return 0, b.err }
func (b failingBody) Close() error             { return nil }

// What is wrong with a request, or with the body that its caller reads from,
// opens no circuit for others.
func TestTheCallersOwnFaultsOpenNoCircuit(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // an answer before the fault would win the race
	})
	for name, fault := range map[string]func(r *http.Request){
		"header value": func(r *http.Request) { r.Header["X-Bad"] = []string{"a\x00b"} },
		"method":       func(r *http.Request) { r.Method = "B AD" },
		"length": func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(failingBody{io.EOF}), 10
		},
		"body": func(r *http.Request) {
			r.Body, r.ContentLength = failingBody{errors.New("disk gone")}, 10
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			tr := polite.NewTransport(base)
			for range 10 {
				r := request(t, "POST", url, "")
				fault(r)
				_, err := tr.RoundTrip(r)
				require.Error(t, err)
			}
			resp, err := tr.RoundTrip(request(t, "GET", url, ""))
			require.NoError(t, err, "the circuit of a healthy host is open")
			resp.Body.Close()
		})
	}
}

func serve(t *testing.T, handler http.HandlerFunc) (url string) {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}
