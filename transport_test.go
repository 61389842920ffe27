package polite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/idempotency"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// provider is a base that answers from a function and remembers when it was asked.
type provider struct {
	answer func(n int, r *http.Request) (*http.Response, error) // n counts from 1
	start  time.Time
	mu     sync.Mutex
	at     []time.Duration
	keys   []string
}

func newProvider(answer func(n int, r *http.Request) (*http.Response, error)) *provider {
	return &provider{answer: answer, start: time.Now()}
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	p.mu.Lock()
	p.at = append(p.at, time.Since(p.start))
	p.keys = append(p.keys, r.Header.Get("Idempotency-Key"))
	n := len(p.at)
	p.mu.Unlock()
	return p.answer(n, r)
}

// reply is a response; header is name, value, name, value.
func reply(r *http.Request, status int, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader("body")), Request: r,
	}
}

func answers(statuses ...int) func(n int, r *http.Request) (*http.Response, error) {
	return func(n int, r *http.Request) (*http.Response, error) {
		return reply(r, statuses[min(n, len(statuses))-1]), nil
	}
}

func request(t *testing.T, method, url string, body string) *http.Request {
	t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, rd)
	require.NoError(t, err)
	return r
}

func dialError() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

// steps records, in order, what the hooks say.
func steps(got *[]string) *observe.Hooks {
	say := func(format string, args ...any) { *got = append(*got, fmt.Sprintf(format, args...)) }
	return &observe.Hooks{
		Paced:     func(_ context.Context, p observe.Paced) { say("paced %d after %v", p.N, p.Wait) },
		Attempted: func(_ context.Context, a observe.Attempt) { say("attempt %d", a.N) },
		Answered:  func(_ context.Context, a observe.Answer) { say("answer %d", a.Status) },
		Retried:   func(_ context.Context, r observe.Retry) { say("retry in %v: %s", r.Wait, r.Reason) },
		GaveUp:    func(_ context.Context, g observe.GaveUp) { say("gave up: %s", g.Reason) },
	}
}

// The order is a promise: what each step costs depends on what came before it.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		p := newProvider(answers(503, 200))
		day := &quota.Quota{Name: "day", Limit: 10, Period: quota.Day, Cost: func(*http.Request) int64 {
			got = append(got, "quota")
			return 3
		}}
		tr := &polite.Transport{
			Base:    p,
			Keys:    &idempotency.Keys{New: func() string { got = append(got, "key"); return "k" }},
			Quotas:  []*quota.Quota{day},
			Retry:   &retry.Policy{Base: time.Second, Jitter: retry.NoJitter},
			Breaker: &breaker.Breaker{},
			Pacer:   &pacer.Pacer{Rate: pacer.Per(1, 10*time.Second), Burst: 1},
			Hooks:   steps(&got),
		}
		resp, err := tr.RoundTrip(request(t, "POST", "http://api.test/", "hello"))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, []string{
			"key", "quota",
			"paced 1 after 0s", "attempt 1", "answer 503",
			"retry in 1s: backoff",
			"paced 1 after 9s", "attempt 2", "answer 200",
		}, got)
		assert.Equal(t, []time.Duration{0, 10 * time.Second}, p.at)
		assert.Equal(t, []string{"k", "k"}, p.keys, "one key for all tries")
		left, err := day.Spend(t.Context(), "http://api.test:80", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 7, left.Left, "the quota counts calls, not tries")
	})
}

// An open circuit fails before the pacer: no token, no wait.
func TestAnOpenCircuitCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(func(int, *http.Request) (*http.Response, error) { return nil, errors.New("reset") })
		tr := &polite.Transport{
			Base:    p,
			Breaker: &breaker.Breaker{Failures: 1, OpenFor: time.Hour},
			Pacer:   &pacer.Pacer{Rate: pacer.Per(1, time.Minute), Burst: 1},
			Quotas:  []*quota.Quota{{Name: "day", Limit: 2, Period: quota.Day}},
		}
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.ErrorContains(t, err, "reset")
		for range 5 {
			start := time.Now()
			_, err = tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
			var open *breaker.OpenError
			require.ErrorAs(t, err, &open)
			assert.Equal(t, "http://api.test:80", open.Key)
			assert.Zero(t, time.Since(start), "it waited for a token before it failed")
		}
		assert.Len(t, p.at, 1)
		_, err = tr.RoundTrip(request(t, "GET", "http://other.test/", ""))
		require.ErrorContains(t, err, "reset", "another host has a circuit of its own, and quota is left: refusals are refunded")
	})
}

func TestFallbackAnswersForAnOpenCircuit(t *testing.T) {
	unwanted := newBody("x")
	tr := &polite.Transport{
		Base:    newProvider(func(int, *http.Request) (*http.Response, error) { return nil, dialError() }),
		Breaker: &breaker.Breaker{Failures: 1},
		Fallback: func(r *http.Request, err error) (*http.Response, error) {
			switch r.URL.Path {
			case "/none":
				return nil, nil
			case "/both":
				resp := reply(nil, 200)
				resp.Body = unwanted
				return resp, err
			case "/bodiless":
				return &http.Response{StatusCode: 200}, nil
			}
			return reply(nil, 200, "X-From", "cache"), nil
		},
	}
	_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
	require.ErrorContains(t, err, "refused", "a failure that is not an open circuit has no fallback")
	r := request(t, "GET", "http://api.test/", "")
	resp, err := tr.RoundTrip(r)
	require.NoError(t, err)
	assert.Equal(t, "cache", resp.Header.Get("X-From"))
	assert.Same(t, r, resp.Request)
	_, err = tr.RoundTrip(request(t, "GET", "http://api.test/none", ""))
	require.ErrorContains(t, err, "Fallback")

	// It is held to the contract of http.RoundTripper.
	resp, err = tr.RoundTrip(request(t, "GET", "http://api.test/both", ""))
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
	assert.Nil(t, resp)
	assert.EqualValues(t, 1, unwanted.closes.Load())
	resp, err = tr.RoundTrip(request(t, "GET", "http://api.test/bodiless", ""))
	require.NoError(t, err)
	assert.NotNil(t, resp.Body)
}

// Nobody has to wait for that: who comes too late is told why.
func TestEndedContextTellsItsCause(t *testing.T) {
	why := errors.New("shutting down")
	for name, tr := range map[string]*polite.Transport{
		"nothing to wait for": {},
		"a pacer":             {Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Second)}},
		"a quota":             {Quotas: []*quota.Quota{{Limit: 1}}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorIs(t, err, why, name)
	}
}

// The circuit was open at first, and outlasted. What became of the call then is
// no business of Fallback's; nor is a caller who has gone.
func TestFallbackIsForTheLastTryOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(func(int, *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
		open := func() *polite.Transport {
			b := &breaker.Breaker{Failures: 1, OpenFor: time.Minute}
			done, _ := b.Acquire("http://api.test:80")
			done(breaker.Failure)
			return &polite.Transport{
				Base: p, Breaker: b, Retry: &retry.Policy{OutlastOpen: true, MaxAttempts: 1},
				Fallback: func(r *http.Request, err error) (*http.Response, error) { return reply(r, 299), nil },
			}
		}
		_, err := open().RoundTrip(request(t, "POST", "http://api.test/", "x"))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Len(t, p.at, 1, "it was sent, and may have been processed")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(500*time.Millisecond, cancel)
		_, err = open().RoundTrip(request(t, "GET", "http://api.test/", "").WithContext(ctx))
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

// A hook that panics, as a server's handler may survive, holds no place.
func TestPanickingHookHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &polite.Transport{
			Base:    newProvider(func(int, *http.Request) (*http.Response, error) { return nil, dialError() }),
			Breaker: &breaker.Breaker{Failures: 1, OpenFor: time.Second},
			Pacer:   &pacer.Pacer{MaxInFlight: 1},
			Hooks:   &observe.Hooks{BreakerChanged: func(context.Context, observe.BreakerChange) { panic("hook") }},
		}
		assert.Panics(t, func() { tr.RoundTrip(request(t, "GET", "http://api.test/", "")) })
		start := time.Now()
		_, err := tr.Pacer.Wait(t.Context(), "http://api.test:80", 1)
		require.NoError(t, err)
		assert.Zero(t, time.Since(start))
	})
}

// Nobody gets the response of a call whose own functions panic, so it is closed.
func TestPanicAfterAnAnswerHoldsNoPlace(t *testing.T) {
	for name, change := range map[string]func(*polite.Transport, *http.Request){
		"check": func(tr *polite.Transport, _ *http.Request) {
			tr.Retry.Check = func(*retry.Attempt) retry.Verdict { panic(1) }
		},
		"hook": func(tr *polite.Transport, _ *http.Request) {
			tr.Hooks = &observe.Hooks{Retried: func(context.Context, observe.Retry) { panic(1) }}
		},
		"outcome": func(tr *polite.Transport, _ *http.Request) {
			tr.Breaker, tr.Outcome = &breaker.Breaker{}, func(int, bool) breaker.Outcome { panic(1) }
		},
		"actual": func(tr *polite.Transport, _ *http.Request) {
			tr.Retry = nil
			tr.Quotas = []*quota.Quota{{Limit: 9, Actual: func(*http.Response) int64 { panic(1) }}}
		},
		"actual of a try": func(tr *polite.Transport, _ *http.Request) {
			tr.Quotas = []*quota.Quota{{Limit: 9, PerAttempt: true, Actual: func(*http.Response) int64 { panic(1) }}}
		},
		"getbody": func(_ *polite.Transport, r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { panic(1) } },
	} {
		answer := newBody("busy")
		tr := &polite.Transport{
			Base: newProvider(func(_ int, r *http.Request) (*http.Response, error) {
				resp := reply(r, 503)
				resp.Body = answer
				return resp, nil
			}),
			Retry: &retry.Policy{}, Pacer: &pacer.Pacer{MaxInFlight: 1},
		}
		r := request(t, "PUT", "http://api.test/", "x")
		change(tr, r)
		assert.Panics(t, func() { tr.RoundTrip(r) }, name)
		assert.EqualValues(t, 1, answer.closes.Load(), name)
		calls, _ := tr.Pacer.InFlight("http://api.test:80")
		assert.Zero(t, calls, name)
	}
}

// The caller who waits for the circuit gets through with the probe.
func TestOutlastOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(func(n int, r *http.Request) (*http.Response, error) {
			if n <= 2 {
				return nil, dialError()
			}
			return reply(r, 200), nil
		})
		tr := polite.NewTransport(p)
		tr.Breaker.Failures = 2
		tr.Retry.OutlastOpen = true
		resp, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Len(t, p.at, 3)
		assert.GreaterOrEqual(t, p.at[2]-p.at[1], 500*time.Millisecond, "the circuit was open in between")
	})
}

// Two clients and a night job share one pacer and one quota: one limit.
func TestSharedPacerAndQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(answers(200))
		pace := &pacer.Pacer{Rate: pacer.Per(10, time.Second), Burst: 5}
		day := &quota.Quota{Name: "day", Limit: 150, Period: quota.Day}
		client := func() *http.Client {
			return &http.Client{Transport: &polite.Transport{Base: p, Pacer: pace, Quotas: []*quota.Quota{day}}}
		}
		var ok, spent atomic.Int64
		var all sync.WaitGroup
		for _, c := range []struct {
			client *http.Client
			class  pacer.Priority
			calls  int
		}{{client(), pacer.Interactive, 40}, {client(), pacer.Interactive, 40}, {client(), pacer.Background, 100}} {
			for range c.calls {
				all.Go(func() {
					r := request(t, "GET", "http://api.test/", "")
					resp, err := c.client.Do(r.WithContext(pacer.WithPriority(r.Context(), c.class)))
					var gone *quota.SpentError
					switch {
					case err == nil:
						ok.Add(1)
						resp.Body.Close()
					case errors.As(err, &gone):
						spent.Add(1)
					default:
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		assert.EqualValues(t, 150, ok.Load())
		assert.EqualValues(t, 30, spent.Load())
		assert.Equal(t, 14500*time.Millisecond, p.at[149], "150 calls, a burst of 5, 10 a second")
		for i := range p.at {
			if i >= 15 {
				assert.GreaterOrEqual(t, p.at[i]-p.at[i-15], time.Second, "16 calls within a second: over Burst + Rate")
			}
		}
	})
}

func TestHooksHearOfCircuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		tr := &polite.Transport{
			Base: newProvider(func(n int, r *http.Request) (*http.Response, error) {
				if n == 1 {
					return nil, dialError()
				}
				return reply(r, 200), nil
			}),
			Breaker: &breaker.Breaker{Failures: 1, OnChange: func(string, breaker.State, breaker.State) { got = append(got, "first") }},
			Hooks: &observe.Hooks{BreakerChanged: func(_ context.Context, b observe.BreakerChange) {
				got = append(got, b.Key+" "+b.From+" to "+b.To)
			}},
		}
		for range 2 {
			tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
			time.Sleep(31 * time.Second)
		}
		assert.Equal(t, []string{
			"first", "http://api.test:80 closed to open",
			"first", "http://api.test:80 open to half-open",
			"first", "http://api.test:80 half-open to closed",
		}, got)
	})
}

func TestCloseIdleConnectionsReachesBase(t *testing.T) {
	base := &idleCloser{}
	(&http.Client{Transport: polite.NewTransport(base)}).CloseIdleConnections()
	assert.EqualValues(t, 1, base.closed)
	(&polite.Transport{Base: newProvider(nil)}).CloseIdleConnections() // has none: no panic
}

type idleCloser struct {
	http.RoundTripper
	closed int
}

func (c *idleCloser) CloseIdleConnections() { c.closed++ }

func TestAKeyThatCannotBeSent(t *testing.T) {
	p := newProvider(answers(200))
	r := request(t, "POST", "http://api.test/", "x")
	r = r.WithContext(idempotency.WithKey(r.Context(), "new\nline"))
	_, err := polite.NewTransport(p).RoundTrip(r)
	require.ErrorContains(t, err, "idempotency")
	assert.Empty(t, p.at)
}
