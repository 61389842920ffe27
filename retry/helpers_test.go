package retry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/retry"
)

// roundTrip is a base made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is what a base does with an attempt.
type answer func(*http.Request) (*http.Response, error)

// status answers with an empty body and header fields, name after name.
func status(code int, fields ...string) answer { return text(code, "", fields...) }

func text(code int, body string, fields ...string) answer {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(fields); i += 2 {
			h.Set(fields[i], fields[i+1])
		}
		return &http.Response{
			StatusCode: code, Header: h, Request: r,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}, nil
	}
}

func fails(err error) answer {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hangs until the attempt's context ends.
func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
)

// script is a base that answers one attempt after the other, the last answer
// for ever, and notes when they came and what they carried.
type script struct {
	answers []answer
	begun   time.Time

	mu     sync.Mutex
	at     []time.Duration
	bodies []string
	keys   []string
}

func says(answers ...answer) *script { return &script{answers: answers, begun: time.Now()} }

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	var body string
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		body = string(b)
	}
	s.mu.Lock()
	next := s.answers[min(len(s.at), len(s.answers)-1)]
	s.at = append(s.at, time.Since(s.begun))
	s.bodies = append(s.bodies, body)
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	s.mu.Unlock()
	return next(r)
}

func (s *script) attempts() int { return len(s.at) }

// call makes a request with a body that can be sent again, if it has one.
func call(t testing.TB, method, body string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://u:pass@api.example.com/secret?token=s3cret", reader)
	require.NoError(t, err)
	return r
}

func with(r *http.Request, change func(context.Context) context.Context) *http.Request {
	return r.WithContext(change(r.Context()))
}

func withKey(r *http.Request) *http.Request {
	r.Header.Set("Idempotency-Key", "one")
	return r
}

// steady has no jitter, so that waits are exact: 1, 2, 4 s.
func steady(change func(*retry.Policy)) *retry.Policy {
	p := &retry.Policy{Base: time.Second, Jitter: retry.NoJitter}
	if change != nil {
		change(p)
	}
	return p
}

func send(t testing.TB, base http.RoundTripper, p *retry.Policy, r *http.Request) (*http.Response, error) {
	t.Helper()
	resp, err := (&retry.Transport{Base: base, Policy: p}).RoundTrip(r)
	require.True(t, (resp == nil) != (err == nil), "either a response or an error")
	return resp, err
}

// log collects what hooks say.
type log struct {
	retried []observe.Retry
	gaveUp  []observe.GaveUp
	sent    []observe.Attempt
	answers []observe.Answer
}

func (l *log) with(ctx context.Context) context.Context {
	return observe.With(ctx, &observe.Hooks{
		Attempted: func(_ context.Context, e observe.Attempt) { l.sent = append(l.sent, e) },
		Answered:  func(_ context.Context, e observe.Answer) { l.answers = append(l.answers, e) },
		Retried:   func(_ context.Context, e observe.Retry) { l.retried = append(l.retried, e) },
		GaveUp:    func(_ context.Context, e observe.GaveUp) { l.gaveUp = append(l.gaveUp, e) },
	})
}
