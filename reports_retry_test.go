package polite_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/idempotency"
	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
)

// Reports about what may be repeated, and what is seen of it.

func checkSeesRequest(t *testing.T) {
	type seen struct {
		method, path string
		n            int
	}
	var got []seen
	p := newProvider(fails(dialError()))
	_, err := do(t, tries(p, func(p *retry.Policy) {
		p.MaxAttempts = 3
		p.Check = func(a *retry.Attempt) retry.Verdict {
			assert.Nil(t, a.Response)
			assert.ErrorContains(t, a.Err, "connection refused")
			assert.True(t, a.NeverProcessed)
			got = append(got, seen{a.Request.Method, a.Request.URL.Path, a.N})
			return retry.ByTable
		}
	}), request(t, "DELETE", "http://api.test/things/7", ""))
	require.Error(t, err)
	assert.Equal(t, []seen{{"DELETE", "/things/7", 1}, {"DELETE", "/things/7", 2}, {"DELETE", "/things/7", 3}}, got)
}

func postOnce(t *testing.T) {
	for _, c := range []struct {
		method   string
		attempts int
	}{{"POST", 1}, {"PATCH", 1}, {"PUT", 4}, {"DELETE", 4}, {"GET", 4}} {
		for _, answer := range []func(int, *http.Request) (*http.Response, error){says(500), says(503), fails(io.ErrUnexpectedEOF)} {
			p := newProvider(answer)
			tr := polite.NewTransport(p)
			resp, err := do(t, tr, request(t, c.method, api, "x"))
			if err == nil {
				assert.Equal(t, "body", read(t, resp), c.method)
			}
			assert.Len(t, p.at, c.attempts, c.method)
		}
	}
}

func postUnsent(t *testing.T) {
	var got []string
	abort := false
	l, base := pipenet.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if got = append(got, string(b)); abort {
			panic(http.ErrAbortHandler)
		}
	}))
	dials := 0
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials < 3 {
			return nil, dialError()
		}
		return l.DialContext(ctx, network, addr)
	}
	base.DisableKeepAlives = true
	tr := polite.NewTransport(base)
	resp, err := do(t, tr, request(t, "POST", api, "hello"))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 3, dials)
	assert.Equal(t, []string{"hello"}, got)

	abort = true
	_, err = do(t, tr, request(t, "POST", api, "again"))
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, []string{"hello", "again"}, got, "it may have been processed")
}

// sent is a base that notes the bodies and keys of what it answers in turn.
type sent struct {
	statuses []int
	header   []string
	bodies   []string
	keys     []string
}

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	b, _ := io.ReadAll(r.Body)
	r.Body.Close()
	s.bodies = append(s.bodies, string(b))
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	status := s.statuses[min(len(s.bodies), len(s.statuses))-1]
	if status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if status < 400 {
		return reply(r, status), nil
	}
	return reply(r, status, s.header...), nil
}

func vouched(t *testing.T) {
	conditional := func(p *retry.Policy) {
		p.Check = func(a *retry.Attempt) retry.Verdict {
			if a.Request.Header.Get("If-Match") != "" && a.Response != nil && a.Response.StatusCode >= 500 {
				return retry.Retry
			}
			return retry.ByTable
		}
	}
	for _, c := range []struct {
		name     string
		vouch    func(*http.Request) *http.Request
		attempts int
	}{
		{"nobody", func(r *http.Request) *http.Request { return r }, 1},
		{"the context", func(r *http.Request) *http.Request { return r.WithContext(retry.WithIdempotent(r.Context())) }, 3},
		{"a precondition", func(r *http.Request) *http.Request { r.Header.Set("If-Match", `"1"`); return r }, 3},
		{"a key", func(r *http.Request) *http.Request { return r.WithContext(idempotency.WithKey(r.Context(), "k")) }, 3},
		{"the caller's own key", func(r *http.Request) *http.Request { r.Header.Set("Idempotency-Key", "mine"); return r }, 3},
		{"an empty key", func(r *http.Request) *http.Request { r.Header["Idempotency-Key"] = []string{""}; return r }, 1},
	} {
		base := &sent{statuses: []int{500, 503, 200}}
		resp, err := do(t, tries(base, conditional), c.vouch(request(t, "POST", api, "pay")))
		require.NoError(t, err, c.name)
		resp.Body.Close()
		assert.Equal(t, strings.Fields(strings.Repeat("pay ", c.attempts)), base.bodies, c.name)
	}
}

func query(t *testing.T) {
	base := &sent{statuses: []int{503, 0, 200}}
	resp, err := do(t, polite.NewTransport(base), request(t, "QUERY", api, "select"))
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, []string{"select", "select", "select"}, base.bodies)
}

func redirect(t *testing.T) {
	for _, location := range []string{"/b", "http://other.test/", "http://[::1", ""} {
		p := newProvider(says(302, "Location", location))
		resp, err := get(t, polite.NewTransport(p))
		require.NoError(t, err)
		assert.Equal(t, 302, resp.StatusCode)
		assert.Equal(t, location, resp.Header.Get("Location"))
		assert.Len(t, p.at, 1, "followed: %q", location)
	}
	var asked []string
	p := newProvider(inTurn(says(302, "Location", "/b"), says(302, "Location", "/c"), says(200)))
	client := &http.Client{Transport: polite.NewTransport(p), CheckRedirect: func(r *http.Request, via []*http.Request) error {
		asked = append(asked, r.URL.Path)
		assert.Equal(t, 302, r.Response.StatusCode)
		if len(via) == 2 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := client.Do(request(t, "GET", "http://api.test/a", ""))
	require.NoError(t, err)
	assert.Equal(t, 302, resp.StatusCode)
	assert.Equal(t, []string{"/b", "/c"}, asked)
	assert.Len(t, p.at, 2)
}

func paceRefuses(t *testing.T) {
	p := newProvider(answers(200))
	tr := &polite.Transport{Base: p, Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Minute), Burst: 1}, Retry: &retry.Policy{}}
	h := listen(tr)
	require.Equal(t, 200, status(t, tr))
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx))
		var wait *pacer.WaitError
		require.ErrorAs(t, err, &wait)
		assert.Equal(t, time.Minute, wait.Wait)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		var timeout net.Error
		if errors.As(err, &timeout) {
			assert.True(t, timeout.Timeout())
		}
	}
	assert.Zero(t, time.Since(p.start), "refused at once")
	assert.Len(t, h.sent, 1)
	assert.Empty(t, h.retried)
	require.Equal(t, 200, status(t, tr))
	assert.Equal(t, seconds(0, 60), p.at, "a refusal took a token")
}

func keyInProgress(t *testing.T) {
	with := func(base http.RoundTripper) *polite.Transport {
		tr := tries(base)
		tr.Keys = &idempotency.Keys{}
		return tr
	}
	base := &sent{statuses: []int{409, 409, 201}, header: []string{"Retry-After", "2"}}
	start := time.Now()
	resp, err := do(t, with(base), request(t, "POST", api, "pay"))
	require.NoError(t, err)
	assert.Equal(t, 201, resp.StatusCode)
	assert.Equal(t, []string{"pay", "pay", "pay"}, base.bodies)
	require.Len(t, base.keys, 3)
	assert.NotEmpty(t, base.keys[0])
	assert.Equal(t, []string{base.keys[0], base.keys[0]}, base.keys[1:])
	requireTold(t, 4*time.Second, time.Since(start))

	// An earlier try of this very call may be what is in progress.
	base = &sent{statuses: []int{0, 409, 201}}
	resp, err = do(t, with(base), request(t, "POST", api, "pay"))
	require.NoError(t, err)
	assert.Equal(t, 201, resp.StatusCode)
	assert.Equal(t, []string{base.keys[0], base.keys[0], base.keys[0]}, base.keys)

	// A conflict with somebody else's change is an answer.
	base = &sent{statuses: []int{409, 201}}
	resp, err = do(t, with(base), request(t, "POST", api, "pay"))
	require.NoError(t, err)
	assert.Equal(t, 409, resp.StatusCode)
	assert.Len(t, base.bodies, 1)
}

func opensBetweenTries(t *testing.T) {
	p := newProvider(fails(errors.New("reset")))
	tr := tries(p, func(p *retry.Policy) { p.MaxAttempts = 10 })
	tr.Breaker = &breaker.Breaker{Failures: 2, OpenFor: time.Hour}
	h := listen(tr)
	_, err := get(t, tr)
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
	assert.ErrorContains(t, err, "reset")
	assert.Equal(t, seconds(0, 1), p.at, "sent into the open circuit")
	assert.Equal(t, 3*time.Second, time.Since(p.start), "it spins, or waits after the refusal")
	assert.Len(t, h.sent, 2)
	assert.Equal(t, []observe.Reason{observe.Refused}, h.why())
	refused := 0
	for _, try := range failed.Tries {
		if try.Refused {
			refused++
		}
	}
	assert.Equal(t, 1, refused)
	assert.Equal(t, 2, failed.Sent)
}

func callersLeave(t *testing.T) {
	tr := polite.NewTransport(newProvider(inTurn(hang, hang, hang, hang, hang, hang, hang, hang, hang, hang, says(200))))
	tr.Breaker = &breaker.Breaker{Failures: 1, FailureRate: 0.1, MinCalls: 1}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 10 {
		r := request(t, "GET", api, "").WithContext(ctx)
		all.Go(func() {
			_, err := tr.RoundTrip(r)
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	synctest.Wait()
	cancel()
	all.Wait()
	assert.Zero(t, tr.Breaker.Stats().NotClosed)
	assert.Equal(t, 200, status(t, tr))
}

func policyForOneCall(t *testing.T) {
	p := newProvider(answers(503))
	tr := tries(p, func(p *retry.Policy) { p.MaxAttempts = 2 })
	own := &retry.Policy{MaxAttempts: 6, Base: 10 * time.Second, Cap: 20 * time.Second, Jitter: retry.NoJitter}
	r := request(t, "GET", api, "")
	resp, err := do(t, tr, r.WithContext(retry.WithPolicy(r.Context(), own)))
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, seconds(0, 10, 30, 50, 70, 90), p.at)
	assert.Equal(t, 503, status(t, tr))
	require.Len(t, p.at, 8)
	assert.Equal(t, seconds(90, 91), p.at[6:], "the next call has the client's policy again")
}

func triesShow(t *testing.T) {
	p := newProvider(answers(503, 502, 200))
	tr := tries(p)
	h := listen(tr)
	require.Equal(t, 200, status(t, tr))
	require.Len(t, h.answers, 3)
	for i, want := range []int{503, 502, 200} {
		assert.Equal(t, i+1, h.sent[i].N)
		assert.Equal(t, i+1, h.answers[i].N)
		assert.Equal(t, want, h.answers[i].Status)
	}
	assert.Len(t, h.retried, 2, "what a span calls a resend")
	require.Equal(t, 200, status(t, tr))
	assert.Equal(t, 1, h.sent[3].N, "a call that goes well has none")

	_, err := get(t, tries(newProvider(fails(dialError()))))
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 4, failed.Sent)
	assert.Len(t, failed.Tries, 4)
	assert.ErrorContains(t, err, "4 attempts")
}
