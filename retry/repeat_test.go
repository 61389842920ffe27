package retry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/retry"
)

// net/http sends a request with a key a second time when a kept connection is
// dead. It must not: each try is one that pace, budget and hooks have seen.
func TestNoRepeatBelow(t *testing.T) {
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for name, policy := range map[string]*retry.Policy{
			"with timeout":    {Base: 1, Cap: 1, AttemptTimeout: 1 << 40, Budget: retry.NoBudget},
			"without timeout": {Base: 1, Cap: 1, Budget: retry.NoBudget},
		} {
			t.Run(header+" "+name, func(t *testing.T) {
				var received, attempts atomic.Int64
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					if received.Add(1)%2 == 0 {
						conn, _, err := w.(http.Hijacker).Hijack()
						if assert.NoError(t, err) {
							conn.Close()
						}
					}
				}))
				defer server.Close()
				base := &http.Transport{}
				defer base.CloseIdleConnections()
				rt := &retry.Transport{Base: base, Policy: policy}
				ctx := observe.With(t.Context(), &observe.Hooks{
					Attempted: func(context.Context, observe.Attempt) { attempts.Add(1) },
				})
				for range 10 {
					r, err := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader("hello"))
					require.NoError(t, err)
					r.Header.Set(header, "k")
					getBody := r.GetBody
					resp, err := rt.RoundTrip(r)
					require.NoError(t, err)
					resp.Body.Close()
					require.NotNil(t, getBody)
					require.NotNil(t, r.GetBody, "the caller's request was written to")
				}
				assert.EqualValues(t, 19, received.Load(), "10 calls; every second request met a closed connection, and was sent again")
				assert.Equal(t, attempts.Load(), received.Load())
			})
		}
	}
}

// What net/http repeats by itself, it still repeats where nothing here would: a
// policy of one attempt, or a caller who asks for it without a key.
func TestRepeatBelowWhereWeDoNot(t *testing.T) {
	var received atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if received.Add(1)%2 == 0 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				conn.Close()
			}
		}
	}))
	defer server.Close()
	key := func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }
	ask := func(r *http.Request) { r.Header["Idempotency-Key"] = []string{} }
	get := func(r *http.Request) { r.Method = "GET" }
	for name, c := range map[string]struct {
		policy *retry.Policy
		change func(*http.Request)
	}{
		"one attempt, key":       {&retry.Policy{MaxAttempts: 1}, key},
		"one attempt, timeout":   {&retry.Policy{MaxAttempts: 1, AttemptTimeout: 1 << 40}, key},
		"one attempt, GET":       {&retry.Policy{MaxAttempts: 1}, get},
		"asked for":              {nil, ask},
		"asked for, with policy": {&retry.Policy{AttemptTimeout: 1 << 40}, ask},
	} {
		t.Run(name, func(t *testing.T) {
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			rt := &retry.Transport{Base: base, Policy: c.policy}
			received.Store(0)
			for range 10 {
				r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, strings.NewReader("hello"))
				require.NoError(t, err)
				c.change(r)
				resp, err := rt.RoundTrip(r)
				if assert.NoError(t, err) {
					resp.Body.Close()
				}
			}
			assert.EqualValues(t, 19, received.Load())
		})
	}
}
