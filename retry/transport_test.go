package retry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/retry"
)

// TestWhatIsTriedAgain is the table of the package comment, and the reports of
// other libraries' users that this package is about.
func TestWhatIsTriedAgain(t *testing.T) {
	const (
		get, put, post, query = "GET", "PUT", "POST", "QUERY"
		minute                = time.Minute
	)
	at := func(d ...time.Duration) []time.Duration { return d }
	busy, ok := status(503), status(200)
	deadline := func(d time.Duration) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			context.AfterFunc(ctx, cancel)
			return r.WithContext(ctx)
		}
	}
	stream := func(r *http.Request) *http.Request {
		r.Body, r.GetBody = io.NopCloser(strings.NewReader("once")), nil
		return r
	}
	idempotent := func(r *http.Request) *http.Request { return with(r, retry.WithIdempotent) }

	for _, c := range []struct {
		name    string
		method  string
		request func(*http.Request) *http.Request
		policy  func(*retry.Policy)
		answers []answer
		status  int // 0: an error
		at      []time.Duration
	}{
		{"success", get, nil, nil, []answer{ok}, 200, at(0)},
		{"not found", get, nil, nil, []answer{status(404)}, 404, at(0)},
		{"redirect", get, nil, nil, []answer{status(302, "Location", "http://[::1")}, 302, at(0)},
		{"not implemented", get, nil, nil, []answer{status(501)}, 501, at(0)},
		{"three times", get, nil, nil, []answer{busy, status(502), status(504), ok}, 200, at(0, 1*second, 3*second, 7*second)},
		{"exhausted", get, nil, nil, []answer{busy}, 503, at(0, 1*second, 3*second, 7*second)},
		{"one attempt", get, nil, func(p *retry.Policy) { p.MaxAttempts = 1 }, []answer{busy}, 503, at(0)},
		{"500", put, nil, nil, []answer{status(500), ok}, 200, at(0, 1*second)},
		{"408", get, nil, nil, []answer{status(408), ok}, 200, at(0, 1*second)},
		{"the empty method", "", nil, nil, []answer{busy, ok}, 200, at(0, 1*second)},
		{"golang/go#81671: QUERY", query, nil, nil, []answer{busy, ok}, 200, at(0, 1*second)},
		{"reset", get, nil, nil, []answer{fails(errReset), ok}, 200, at(0, 1*second)},
		{"reset for ever", get, nil, nil, []answer{fails(errReset)}, 0, at(0, 1*second, 3*second, 7*second)},
		{"Retry after success", get, nil, nil, []answer{status(200, "Retry-After", "9")}, 200, at(0)},

		{"go-resty/resty#777: POST, 500", post, nil, nil, []answer{status(500), ok}, 500, at(0)},
		{"POST, 503 with a told wait", post, nil, nil, []answer{status(503, "Retry-After", "3"), ok}, 503, at(0)},
		{"POST, 429", post, nil, nil, []answer{status(429), ok}, 200, at(0, 1*second)},
		{"POST, 425", post, nil, nil, []answer{status(425), ok}, 200, at(0, 1*second)},
		{"hashicorp/go-retryablehttp#114: POST, refused", post, nil, nil, []answer{fails(errRefused), ok}, 200, at(0, 1*second)},
		{"hashicorp/go-retryablehttp#114: POST, EOF", post, nil, nil, []answer{fails(io.ErrUnexpectedEOF), ok}, 0, at(0)},
		{"POST, timeout", post, nil, func(p *retry.Policy) { p.AttemptTimeout = minute }, []answer{hangs, ok}, 0, at(0)},
		{"POST with a key", post, withKey, nil, []answer{fails(errReset), status(500), ok}, 200, at(0, 1*second, 3*second)},
		{"POST with an empty key", post, func(r *http.Request) *http.Request { r.Header["Idempotency-Key"] = []string{}; return r }, nil, []answer{status(500), ok}, 500, at(0)},
		{"POST with a blank key", post, func(r *http.Request) *http.Request { r.Header["Idempotency-Key"] = []string{""}; return r }, nil, []answer{status(500), ok}, 500, at(0)},
		{"googleapis/google-cloud-go#5165: POST, marked", post, idempotent, nil, []answer{status(500), ok}, 200, at(0, 1*second)},
		{"stripe/stripe-go#651: 409, told", post, withKey, nil, []answer{status(409, "Retry-After", "2"), ok}, 200, at(0, 2*second)},
		{"stripe/stripe-go#651: 409 after an uncertain try", post, withKey, nil, []answer{status(502), status(409), ok}, 200, at(0, 1*second, 3*second)},
		{"409 after a certain one", post, withKey, nil, []answer{status(429), status(409), ok}, 409, at(0, 1*second)},
		{"409 after a refused connection", post, withKey, nil, []answer{fails(errRefused), status(409), ok}, 409, at(0, 1*second)},
		{"409", post, withKey, nil, []answer{status(409), ok}, 409, at(0)},
		{"409, told, no key", post, nil, nil, []answer{status(409, "Retry-After", "2"), ok}, 409, at(0)},
		{"replayed", post, withKey, nil, []answer{status(500, "Idempotent-Replayed", "true"), ok}, 500, at(0)},
		{"openai/openai-python#957: told not to", get, nil, nil, []answer{status(503, "X-Should-Retry", "false"), ok}, 503, at(0)},
		{"stripe: told not to", get, nil, nil, []answer{status(503, "Stripe-Should-Retry", "false"), ok}, 503, at(0)},
		{"told to", get, nil, nil, []answer{status(400, "X-Should-Retry", "true"), ok}, 200, at(0, 1*second)},
		{"stripe/stripe-go#642: 409, told to", post, withKey, nil, []answer{status(409, "Stripe-Should-Retry", "true"), ok}, 200, at(0, 1*second)},
		{"told to, unsafe", post, nil, nil, []answer{status(400, "X-Should-Retry", "true"), ok}, 400, at(0)},
		{"databricks/databricks-sdk-java#872: a stream", put, stream, nil, []answer{busy, ok}, 503, at(0)},
		{"a stream, refused", put, stream, nil, []answer{fails(errRefused), ok}, 0, at(0)},
		{"bad certificate", get, nil, nil, []answer{fails(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}}}), ok}, 0, at(0)},
		{"bare x509", get, nil, nil, []answer{fails(x509.UnknownAuthorityError{}), ok}, 0, at(0)},
		{"bad scheme", get, nil, nil, []answer{fails(errors.New("unsupported protocol scheme \"ftp\"")), ok}, 0, at(0)},
		{"bad scheme of the server", get, nil, nil, []answer{fails(http.ErrSchemeMismatch), ok}, 0, at(0)},
		{"refused by the client below", get, nil, nil, []answer{fails(&refusal{}), ok}, 0, at(0)},

		{"told", get, nil, nil, []answer{status(503, "Retry-After", "3"), ok}, 200, at(0, 3*second)},
		{"told less than the backoff", get, nil, nil, []answer{status(429, "Retry-After", "0"), ok}, 200, at(0, 1*second)},
		{"hashicorp/go-retryablehttp#247: told an hour", get, nil, nil, []answer{status(429, "Retry-After", "3600"), ok}, 429, at(0)},
		{"told an hour, and it may", get, nil, func(p *retry.Policy) { p.MaxRetryAfter = -1 }, []answer{status(429, "Retry-After", "3600"), ok}, 200, at(0, time.Hour)},
		{"hashicorp/go-retryablehttp#297: told for ever", get, nil, nil, []answer{status(429, "Retry-After", "9223372037"), ok}, 200, at(0, 1*second)},
		{"apify/crawlee-python#1995: told nonsense", get, nil, nil, []answer{status(429, "Retry-After", "-5"), ok}, 200, at(0, 1*second)},
		{"openai/openai-python#957: milliseconds", get, nil, func(p *retry.Policy) { p.Base = 1 }, []answer{status(503, "Retry-After-Ms", "250", "Retry-After", "1"), ok}, 200, at(0, 250*time.Millisecond)},
		{"withcoral/coral#89: a reset in the past", get, nil, nil, []answer{status(429, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "946684799"), ok}, 200, at(0, 1*second)},
		{"gofri/go-github-ratelimit#29: no hint", get, nil, nil, []answer{status(429), status(429), ok}, 200, at(0, 1*second, 3*second)},
		{"hashicorp/go-retryablehttp#272: beyond the deadline", get, deadline(5 * second), func(p *retry.Policy) { p.Base = 10 * second }, []answer{busy, ok}, 503, at(0)},
		{"told beyond the deadline", get, deadline(5 * second), nil, []answer{status(503, "Retry-After", "5"), ok}, 503, at(0)},
		{"told within the deadline", get, deadline(5 * second), nil, []answer{status(503, "Retry-After", "4"), ok}, 200, at(0, 4*second)},
		{"dotnet/extensions#7701: beyond MaxElapsed", get, nil, func(p *retry.Policy) { p.MaxElapsed = 30 * second }, []answer{status(503, "Retry-After", "60"), ok}, 503, at(0)},
		{"linkerd/linkerd2#2369: MaxElapsed counts waits", get, nil, func(p *retry.Policy) { p.MaxElapsed = 6 * second }, []answer{busy}, 503, at(0, 1*second, 3*second)},

		{"check stops", get, nil, func(p *retry.Policy) {
			p.Check = func(*retry.Attempt) retry.Verdict { return retry.Stop }
		}, []answer{busy, ok}, 503, at(0)},
		{"check goes on", post, nil, func(p *retry.Policy) {
			p.Check = func(a *retry.Attempt) retry.Verdict {
				if a.Response.Header.Get("X") == "again" {
					return retry.Retry
				}
				return retry.ByTable
			}
		}, []answer{status(200, "X", "again"), ok}, 200, at(0, 1*second)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := call(t, c.method, "payload")
				if c.request != nil {
					r = c.request(r)
				}
				body := "payload"
				if r.GetBody == nil {
					body = "once"
				}
				base := says(c.answers...)
				resp, err := send(t, base, steady(c.policy), r)
				if c.status == 0 {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					assert.Equal(t, c.status, resp.StatusCode)
					assert.Same(t, r, resp.Request)
					resp.Body.Close()
				}
				require.Len(t, base.at, len(c.at))
				// Told waits have a jitter of up to a tenth.
				assert.InDeltaSlice(t, toSeconds(c.at), toSeconds(base.at), 0.1*toSeconds(c.at)[len(c.at)-1]+1e-9)
				for i, d := range base.at {
					assert.GreaterOrEqual(t, d, c.at[i])
					assert.Equal(t, body, base.bodies[i], "body of attempt %d", i+1)
				}
				if r.Header.Get("Idempotency-Key") != "" {
					assert.Equal(t, "one", base.keys[len(base.keys)-1])
				}
			})
		})
	}
}

func toSeconds(d []time.Duration) []float64 {
	s := make([]float64, len(d))
	for i := range d {
		s[i] = d[i].Seconds()
	}
	return s
}

// refusal is how another room says that it did not send.
type refusal struct{}

func (e *refusal) Error() string { return "room: refused" }
func (e *refusal) Refused() bool { return true }

// open is a refusal by a circuit.
type open struct {
	refusal
	left time.Duration
}

func (e *open) OpenFor() time.Duration { return e.left }

// rekor#2640: three failures, and the caller reads the last one's explanation.
func TestExhaustedReturnsTheLastResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []*tracked
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			b := &tracked{Reader: strings.NewReader(`{"error":"busy"}`)}
			bodies = append(bodies, b)
			return &http.Response{StatusCode: 503, Header: http.Header{}, Body: b, ContentLength: -1}, nil
		})
		resp, err := send(t, base, nil, call(t, "GET", ""))
		require.NoError(t, err)
		require.Len(t, bodies, 4)
		assert.Zero(t, bodies[3].reads)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		assert.JSONEq(t, `{"error":"busy"}`, string(text))
		for i, b := range bodies {
			assert.Equal(t, 1, b.closes, "closes of body %d", i+1)
		}
	})
}

type tracked struct {
	io.Reader
	reads, closes int
}

func (b *tracked) Read(p []byte) (int, error) { b.reads++; return b.Reader.Read(p) }
func (b *tracked) Close() error               { b.closes++; return nil }

func TestGetBodyThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		r := with(call(t, "PUT", "payload"), l.with)
		r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		base := says(text(503, "why"), status(200))
		resp, err := send(t, base, steady(nil), r)
		require.NoError(t, err)
		why, _ := io.ReadAll(resp.Body)
		assert.Equal(t, "why", string(why))
		assert.Equal(t, 1, base.attempts())
		require.Len(t, l.gaveUp, 1)
		assert.Equal(t, observe.NotReplayable, l.gaveUp[0].Reason)
		assert.Empty(t, l.retried)
	})
}

// hashicorp/go-retryablehttp#104: one call's own policy, for every attempt.
func TestWithPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &retry.Transport{Base: says(status(503)), Policy: steady(nil)}
		own := steady(func(p *retry.Policy) { p.MaxAttempts, p.Base = 2, 9*time.Second })
		for _, c := range []struct {
			own  *retry.Policy
			took time.Duration
		}{{nil, 7 * second}, {own, 9 * second}, {nil, 7 * second}} {
			begun := time.Now()
			ctx := retry.WithIdempotent(retry.WithPolicy(t.Context(), c.own)) // both in one context
			resp, err := tr.RoundTrip(call(t, "POST", "").WithContext(ctx))
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, c.took, time.Since(begun))
		}
	})
}

// aws/aws-sdk-go-v2#1665: a host that fails takes nothing from another.
func TestBudgetIsKeptPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &retry.Transport{Policy: &retry.Policy{Base: -1}}
		n := 0
		tr.Base = roundTrip(func(r *http.Request) (*http.Response, error) { n++; return status(503)(r) })
		get := func(host string) int {
			n = 0
			r := call(t, "GET", "")
			r.URL.Host = host
			resp, err := tr.RoundTrip(r)
			require.NoError(t, err)
			resp.Body.Close()
			return n
		}
		for _, want := range []int{4, 4, 4, 2, 1, 1} {
			assert.Equal(t, want, get("bad.example.com"))
		}
		assert.Equal(t, 4, get("good.example.com"))
		time.Sleep(10 * second)
		assert.Equal(t, 2, get("bad.example.com"), "one more in 10 s")
		tr.Policy.Key = func(*http.Request) string { return "one for all" }
		for _, want := range []int{4, 4, 4, 2, 1} {
			assert.Equal(t, want, get("bad.example.com"))
		}
		assert.Equal(t, 1, get("good.example.com"))
		tr.Policy.Budget = retry.NoBudget
		assert.Equal(t, 4, get("bad.example.com"))
	})
}

// aws/aws-sdk-go-v2#3550: a call that succeeds by a retry earns its tenth, too.
func TestBudgetIsEarnedByRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		tr := &retry.Transport{Policy: &retry.Policy{Base: -1}}
		tr.Base = roundTrip(func(r *http.Request) (*http.Response, error) {
			if n++; n%2 == 1 {
				return status(503)(r)
			}
			return status(200)(r)
		})
		saved := 0
		for {
			resp, err := tr.RoundTrip(call(t, "GET", ""))
			require.NoError(t, err)
			resp.Body.Close()
			if resp.StatusCode != 200 {
				break
			}
			saved++
		}
		assert.Equal(t, 11, saved, "9 tokens pay for ten calls at 0.9 each, one is left")
	})
}

// What the budget is told: calls, not attempts, and every answer that is none
// of failure.
func TestBudgetCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://api.example.com:80"
		b := new(retry.Budget)
		answers := status(404)
		tr := &retry.Transport{Policy: &retry.Policy{Base: -1, MaxAttempts: 51, Budget: b}}
		tr.Base = roundTrip(func(r *http.Request) (*http.Response, error) { return answers(r) })
		get := func() {
			resp, err := tr.RoundTrip(call(t, "GET", ""))
			require.NoError(t, err)
			resp.Body.Close()
		}
		for range 1000 {
			get()
		}
		assert.InDelta(t, 100, b.Level(host, time.Now()), 1e-6, "a tenth of the calls")
		answers = status(503)
		get()
		assert.InDelta(t, 50, b.Level(host, time.Now()), 1e-6, "less 50 retries")
		for range 1000 {
			b.Succeeded(host, time.Now())
		}
		assert.InDelta(t, 100.1, b.Level(host, time.Now()), 1e-6, "a tenth of 1,001 calls")
	})
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		slow := func(r *http.Request) (*http.Response, error) {
			time.Sleep(100 * time.Millisecond)
			return status(503, "Retry-After", "3")(r)
		}
		p := steady(func(p *retry.Policy) { p.MaxAttempts = 3 })
		resp, err := send(t, says(slow, fails(errReset), status(502)), p, with(call(t, "GET", ""), l.with))
		require.NoError(t, err)
		resp.Body.Close()

		a := observe.Attempt{Method: "GET", Host: "http://api.example.com:80", N: 1}
		second, third := a, a
		second.N, third.N = 2, 3
		assert.Equal(t, []observe.Attempt{a, second, third}, l.sent)
		assert.Equal(t, []observe.Answer{
			{Attempt: a, Status: 503, Took: 100 * time.Millisecond, Told: 3 * time.Second, IsTold: true},
			{Attempt: second, Err: errReset},
			{Attempt: third, Status: 502},
		}, l.answers)
		require.Len(t, l.retried, 2)
		assert.Equal(t, a, l.retried[0].Attempt)
		assert.Equal(t, observe.Told, l.retried[0].Reason)
		assert.Equal(t, 503, l.retried[0].Status)
		assert.InDelta(t, 3.15, l.retried[0].Wait.Seconds(), 0.15)
		assert.Equal(t, observe.Retry{Attempt: second, Err: errReset, Wait: 2 * time.Second, Reason: observe.Backoff}, l.retried[1])
		assert.Equal(t, []observe.GaveUp{{Attempt: third, Status: 502, Reason: observe.Attempts}}, l.gaveUp)
	})
}

// hashicorp/go-retryablehttp#114: a policy knows what it judges.
func TestCheckSeesTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		p := steady(func(p *retry.Policy) {
			p.Check = func(a *retry.Attempt) retry.Verdict {
				told := ""
				if a.Signal.Told {
					told = a.Signal.Wait.String()
				}
				code := 0
				if a.Response != nil {
					code = a.Response.StatusCode
				}
				seen = append(seen, fmt.Sprint(a.N, a.Request.Method, code, a.Err != nil, a.NeverProcessed, a.Sent(), told))
				return retry.ByTable
			}
		})
		_, err := send(t, says(fails(errRefused), status(503, "Retry-After", "2"), status(200)), p, call(t, "GET", ""))
		require.NoError(t, err)
		assert.Equal(t, []string{"1GET0 true true true", "2GET503 false false true2s", "3GET200 false false true"}, seen)
	})
}

// hashicorp/go-retryablehttp#215: the hint stands in the body.
func TestCheckMayPeekIntoTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := steady(func(p *retry.Policy) {
			p.Check = func(a *retry.Attempt) retry.Verdict {
				body := a.Response.Body
				var begin [5]byte
				n, _ := io.ReadFull(body, begin[:])
				a.Response.Body = struct {
					io.Reader
					io.Closer
				}{io.MultiReader(bytes.NewReader(begin[:n]), body), body}
				if string(begin[:n]) == "quota" {
					return retry.Stop
				}
				return retry.ByTable
			}
		})
		base := says(text(429, "later, please"), text(429, "quota is spent"))
		resp, err := send(t, base, p, call(t, "GET", ""))
		require.NoError(t, err)
		whole, _ := io.ReadAll(resp.Body)
		assert.Equal(t, "quota is spent", string(whole))
		assert.Equal(t, 2, base.attempts())
	})
}

func TestBaseOfNothing(t *testing.T) {
	r := call(t, "GET", "")
	_, err := send(t, fails2(nil, nil), &retry.Policy{MaxAttempts: 1}, r)
	require.ErrorContains(t, err, "neither a response nor an error")

	body := &tracked{Reader: bytes.NewReader(nil)}
	_, err = send(t, fails2(&http.Response{Body: body}, errReset), &retry.Policy{MaxAttempts: 1}, r)
	require.ErrorIs(t, err, errReset)
	assert.Equal(t, 1, body.closes)
}

func fails2(resp *http.Response, err error) http.RoundTripper {
	return roundTrip(func(*http.Request) (*http.Response, error) { return resp, err })
}
