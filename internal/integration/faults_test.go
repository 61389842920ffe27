package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/idempotency"
	"github.com/politehttp/polite/retry"
)

// sender is a kind of request, and whether it may act twice without harm.
type sender struct {
	name  string
	safe  bool // to repeat
	acted string
	make  func(ctx context.Context, url string) *http.Request
}

var senders = []sender{
	{"GET", true, "GET", func(ctx context.Context, url string) *http.Request {
		return newRequest(ctx, http.MethodGet, url, "")
	}},
	{"PUT", true, "PUT  hello", func(ctx context.Context, url string) *http.Request {
		return newRequest(ctx, http.MethodPut, url, "hello")
	}},
	{"POST", false, "POST  hello", func(ctx context.Context, url string) *http.Request {
		return newRequest(ctx, http.MethodPost, url, "hello")
	}},
	{"PATCH", false, "PATCH  hello", func(ctx context.Context, url string) *http.Request {
		return newRequest(ctx, http.MethodPatch, url, "hello")
	}},
	{"POST with the caller's header", true, "POST k1 hello", func(ctx context.Context, url string) *http.Request {
		r := newRequest(ctx, http.MethodPost, url, "hello")
		r.Header.Set("Idempotency-Key", "k1")
		return r
	}},
	{"POST with a key", true, "POST k2 hello", func(ctx context.Context, url string) *http.Request {
		return newRequest(idempotency.WithKey(ctx, "k2"), http.MethodPost, url, "hello")
	}},
	{"POST marked idempotent", true, "POST  hello", func(ctx context.Context, url string) *http.Request {
		return newRequest(retry.WithIdempotent(ctx), http.MethodPost, url, "hello")
	}},
	{"PUT whose body cannot be had again", false, "PUT  hello", func(ctx context.Context, url string) *http.Request {
		r := newRequest(ctx, http.MethodPut, url, "hello")
		r.GetBody = nil
		return r
	}},
}

func newRequest(ctx context.Context, method, url, body string) *http.Request {
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, b)
	if err != nil {
		panic(err)
	}
	return r
}

// newClient is the recommended transport, in a hurry.
func newClient(base http.RoundTripper) *polite.Transport {
	rt := polite.NewTransport(base)
	rt.Retry.Base = 10 * time.Millisecond
	return rt
}

// The table of what a broken connection leads to. Each fault meets the first
// attempt, on a connection of its own and on one that served before.
func TestFaultsOfTheConnection(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		fault    fault
		acted    int  // how often a first attempt has acted
		answered bool // and was answered all the same: no retry
	}{
		{resetUnread, 0, false},
		{resetRead, 1, false},
		{halfHeader, 1, false},
		{silent, 1, false},
		{midBody, 1, true},
	} {
		for _, s := range senders {
			for _, warm := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/warm=%t", f.fault, s.name, warm), func(t *testing.T) {
					t.Parallel()
					p := newFaultProxy(t, false)
					base := newBase(t)
					rt := newClient(base)
					if f.fault == silent {
						rt.Retry.AttemptTimeout = 2 * time.Second
					}
					if warm {
						resp, err := rt.RoundTrip(newRequest(t.Context(), http.MethodGet, p.url(), ""))
						require.NoError(t, err)
						_, err = io.Copy(io.Discard, resp.Body)
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
					}
					p.spoil(f.fault)
					resp, err := rt.RoundTrip(s.make(t.Context(), p.url()))
					switch {
					case f.answered:
						assertHalf(t, p, resp, err)
						assert.Equal(t, []string{s.acted}, p.seen(), "what the server acted upon")
					case s.safe:
						assertWhole(t, resp, err)
						assert.Equal(t, repeat(s.acted, f.acted+1), p.seen(), "what the server acted upon")
					default:
						assertFailed(t, f.fault, resp, err)
						assert.Equal(t, repeat(s.acted, f.acted), p.seen(), "what the server acted upon: never twice")
					}
				})
			}
		}
	}
}

// A connection that was never made is proof that nothing was acted upon: then
// a POST without a key is repeated, and acts once.
func TestFaultsBeforeTheConnection(t *testing.T) {
	t.Parallel()
	for _, s := range senders {
		if s.name == "PUT whose body cannot be had again" {
			continue // nothing helps a body that is gone
		}
		t.Run("nobody listens/"+s.name, func(t *testing.T) {
			t.Parallel()
			p := newFaultProxy(t, false)
			p.spoil()
			base := newBase(t)
			nobody := freePort(t)
			var dials atomic.Int64
			base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials.Add(1) <= 2 {
					addr = nobody
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			resp, err := newClient(base).RoundTrip(s.make(t.Context(), p.url()))
			assertWhole(t, resp, err)
			assert.EqualValues(t, 3, dials.Load(), "dials")
			assert.Equal(t, []string{s.acted}, p.seen(), "what the server acted upon")
		})
		t.Run("the TLS handshake fails/"+s.name, func(t *testing.T) {
			t.Parallel()
			p := newFaultProxy(t, true)
			p.spoil(resetUnread, resetUnread)
			base := newBase(t)
			base.TLSClientConfig = p.server.Client().Transport.(*http.Transport).TLSClientConfig
			resp, err := newClient(base).RoundTrip(s.make(t.Context(), p.url()))
			assertWhole(t, resp, err)
			assert.Equal(t, []string{s.acted}, p.seen(), "what the server acted upon")
		})
	}
}

// Faults that do not end are not retried for ever, and the error tells it all.
func TestFaultsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{resetUnread, resetRead, halfHeader} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			p := newFaultProxy(t, false)
			p.spoil(f, f, f, f, f, f, f, f)
			resp, err := newClient(newBase(t)).RoundTrip(newRequest(t.Context(), http.MethodGet, p.url(), ""))
			assertFailed(t, f, resp, err)
			var tries *retry.Error
			require.ErrorAs(t, err, &tries)
			p.mu.Lock()
			defer p.mu.Unlock()
			assert.Len(t, p.plan, 4, "faults left of 8 after four attempts")
		})
	}
}

func assertWhole(t *testing.T, resp *http.Response, err error) {
	t.Helper()
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Len(t, b, answerSize)
}

// assertHalf reads what came before the reset, and then its error: a response
// that the caller has begun to read is no longer the transport's to repeat.
func assertHalf(t *testing.T, p *faultProxy, resp *http.Response, err error) {
	t.Helper()
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	_, err = io.ReadFull(resp.Body, make([]byte, answerSize/2))
	require.NoError(t, err)
	p.cut <- struct{}{}
	n, err := io.Copy(io.Discard, resp.Body)
	assert.Error(t, err, "the end of a body that was cut")
	assert.Zero(t, n, "bytes after the reset")
}

func assertFailed(t *testing.T, f fault, resp *http.Response, err error) {
	t.Helper()
	assert.Nil(t, resp)
	require.Error(t, err)
	if f == silent {
		assert.True(t, os.IsTimeout(err), "os.IsTimeout(%v)", err)
	}
	assert.False(t, errors.Is(err, context.Canceled), "nobody cancelled: %v", err)
}

func repeat(s string, n int) []string {
	var all []string
	for range n {
		all = append(all, s)
	}
	return all
}
