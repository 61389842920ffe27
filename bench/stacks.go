// Package bench asks one question a benchmark, of this module and of its peers,
// in one binary and one run. Only ratios carry over to another machine:
//
//	GOWORK=off go -C bench run ./cmd/compare          the table, as Markdown
//	GOWORK=off go -C bench test -bench . -count 10    raw output for benchstat
package bench

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/idempotency"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
)

// Stack builds a client over a base. All stacks retry twice without a wait,
// have a circuit breaker and a limiter that never makes anybody wait.
type Stack struct {
	Name string
	Over func(base http.RoundTripper) http.RoundTripper
}

// Stacks are the clients that are compared.
var Stacks = []Stack{
	{"bare", func(base http.RoundTripper) http.RoundTripper { return base }},
	{"polite", Polite},
	{"polite, fixed rate", PoliteFixedRate},
	{"polite, no AttemptTimeout", PoliteNoTimeout},
	{"hand-made", HandMade},
	{"failsafe-go", Failsafe},
}

// Polite is NewTransport, with retries that do not wait.
func Polite(base http.RoundTripper) http.RoundTripper {
	t := polite.NewTransport(base)
	t.Retry.Base, t.Retry.Cap, t.Retry.Budget = 1, 1, retry.NoBudget
	t.Breaker.FailureRate = 0 // two of three tries fail here by design
	return t
}

// PoliteFixedRate is Polite with a rate that never waits.
func PoliteFixedRate(base http.RoundTripper) http.RoundTripper {
	t := Polite(base).(*polite.Transport)
	t.Pacer = &pacer.Pacer{Rate: pacer.Per(1e9, time.Second), Burst: 1e9}
	return t
}

// PoliteNoTimeout is Polite without the copy of each request that carries the
// context which ends an attempt after AttemptTimeout.
func PoliteNoTimeout(base http.RoundTripper) http.RoundTripper {
	t := Polite(base).(*polite.Transport)
	t.Retry.AttemptTimeout = 0
	return t
}

// PoliteKeys is Polite with an idempotency key for each POST.
func PoliteKeys(base http.RoundTripper) http.RoundTripper {
	t := Polite(base).(*polite.Transport)
	t.Keys = &idempotency.Keys{}
	return t
}

// HandMade is what many programs build: go-retryablehttp around sony/gobreaker
// around golang.org/x/time/rate.
func HandMade(base http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.Logger, c.RetryMax = nil, 2
	c.Backoff = func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 }
	c.HTTPClient = &http.Client{Transport: guarded{
		limit:   rate.NewLimiter(1e9, 1e9),
		breaker: gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{}),
		next:    base,
	}}
	return &retryablehttp.RoundTripper{Client: c}
}

type guarded struct {
	limit   *rate.Limiter
	breaker *gobreaker.CircuitBreaker[*http.Response]
	next    http.RoundTripper
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.limit.Wait(r.Context()); err != nil {
		return nil, err
	}
	return g.breaker.Execute(func() (*http.Response, error) { return g.next.RoundTrip(r) })
}

// Failsafe is failsafe-go's retry, breaker and limiter.
func Failsafe(base http.RoundTripper) http.RoundTripper {
	return failsafehttp.NewRoundTripper(base,
		failsafehttp.NewRetryPolicyBuilder().Build(),
		circuitbreaker.NewBuilder[*http.Response]().WithFailureThresholdRatio(9, 10).Build(),
		ratelimiter.NewSmoothWithMaxRate[*http.Response](time.Nanosecond),
	)
}

// Base answers from memory: after Fail failures with status 500, one success.
type Base struct {
	Header http.Header
	Fail   int
	n      int
}

// RoundTrip reads the body as a transport would, and answers.
func (b *Base) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	status := http.StatusOK
	if b.Fail > 0 {
		if b.n++; b.n%(b.Fail+1) != 0 {
			status = http.StatusInternalServerError
		}
	}
	return &http.Response{StatusCode: status, Header: b.Header, Body: http.NoBody, Request: r}, nil
}

// Header8 is a response header of eight fields without a limit among them.
func Header8() http.Header {
	return http.Header{
		"Date":                   {"Sun, 01 Mar 2026 12:00:00 GMT"},
		"Content-Type":           {"application/json"},
		"Content-Length":         {"512"},
		"Connection":             {"keep-alive"},
		"Cache-Control":          {"no-cache"},
		"Etag":                   {`"33a64df551425fcc55e4d42a148795d9f25f89d4"`},
		"Vary":                   {"Accept-Encoding"},
		"X-Content-Type-Options": {"nosniff"},
	}
}

// Question is one thing that is measured.
type Question struct {
	Name    string
	Base    func() *Base
	Request func() *http.Request
}

// Get and Post make the requests.
func Get() *http.Request {
	r, _ := http.NewRequest("GET", "http://api.test/v1/things", nil)
	return r
}

var payload = bytes.Repeat([]byte("x"), 1024)

// Post makes a request with a body of 1 KiB that can be rewound.
func Post() *http.Request {
	r, _ := http.NewRequest("POST", "http://api.test/v1/things", bytes.NewReader(payload))
	return r
}

// Questions about the outbound client.
var Questions = []Question{
	{"GET", func() *Base { return &Base{} }, Get},
	{"GET, 8 header fields", func() *Base { return &Base{Header: Header8()} }, Get},
	{"POST 1 KiB", func() *Base { return &Base{} }, Post},
	{"GET failing twice", func() *Base { return &Base{Fail: 2} }, Get},
}

// Call sends one request and closes the answer.
func Call(rt http.RoundTripper, r *http.Request) error {
	if r.GetBody != nil {
		r.Body, _ = r.GetBody()
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// StacksFor is Stacks, with ours as it would be used for q: a POST has a key.
func StacksFor(q Question) []Stack {
	stacks := append([]Stack(nil), Stacks...)
	if q.Request().Method == http.MethodPost {
		stacks[1].Over = PoliteKeys
	}
	return stacks
}
