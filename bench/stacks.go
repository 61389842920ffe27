package bench

import (
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/politehttp/polite"
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
	{"passes through", func(base http.RoundTripper) http.RoundTripper { return layer{base} }},
	{"polite", Polite},
	{"polite, fixed rate", PoliteFixedRate},
	{"polite, no AttemptTimeout", PoliteNoTimeout},
	{"hand-made", HandMade},
	{"hand-made, rehttp", HandMadeRehttp},
	{"failsafe-go", Failsafe},
	{"azcore", Azcore},
	{"go-retryablehttp alone", RetryableHTTP},
	{"rehttp alone", Rehttp},
}

// layer does nothing: the least that a RoundTripper around another costs.
type layer struct{ next http.RoundTripper }

func (l layer) RoundTrip(r *http.Request) (*http.Response, error) { return l.next.RoundTrip(r) }

// again sends a request up to three times, as one would by hand.
type again struct{ next http.RoundTripper }

func (a again) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	for range 3 {
		if resp, err = a.next.RoundTrip(r); err != nil || resp.StatusCode < 500 {
			break
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if r.GetBody != nil {
			r.Body, _ = r.GetBody()
		}
	}
	return resp, err
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

// HandMade is what many programs build: go-retryablehttp around
// golang.org/x/time/rate around sony/gobreaker.
func HandMade(base http.RoundTripper) http.RoundTripper { return RetryableHTTP(guard(base)) }

// HandMadeRehttp is the same with rehttp, which costs less.
func HandMadeRehttp(base http.RoundTripper) http.RoundTripper { return Rehttp(guard(base)) }

// RetryableHTTP is go-retryablehttp alone.
func RetryableHTTP(base http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.Logger, c.RetryMax = nil, 2
	c.Backoff = func(time.Duration, time.Duration, int, *http.Response) time.Duration { return 0 }
	c.HTTPClient = &http.Client{Transport: base}
	return &retryablehttp.RoundTripper{Client: c}
}

// Rehttp is PuerkitoBio/rehttp alone.
func Rehttp(base http.RoundTripper) http.RoundTripper {
	return rehttp.NewTransport(base,
		rehttp.RetryAll(rehttp.RetryMaxRetries(2), rehttp.RetryStatusInterval(500, 600)),
		rehttp.ConstDelay(0))
}

func guard(base http.RoundTripper) http.RoundTripper {
	return guarded{
		limit:   rate.NewLimiter(1e9, 1e9),
		breaker: gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{}),
		next:    base,
	}
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

// Azcore is the pipeline of Azure's SDK with what cannot be left out of it, which
// is more than retries; it has no limiter and no breaker.
func Azcore(base http.RoundTripper) http.RoundTripper {
	return azure{runtime.NewPipeline("bench", "v1", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: doer{base},
		Telemetry: policy.TelemetryOptions{Disabled: true},
		Retry:     policy.RetryOptions{MaxRetries: 2, RetryDelay: 1, MaxRetryDelay: 1},
	})}
}

type azure struct{ pipeline runtime.Pipeline }

func (a azure) RoundTrip(r *http.Request) (*http.Response, error) {
	request, err := runtime.NewRequestFromRequest(r)
	if err != nil {
		return nil, err
	}
	return a.pipeline.Do(request)
}

type doer struct{ base http.RoundTripper }

func (d doer) Do(r *http.Request) (*http.Response, error) { return d.base.RoundTrip(r) }
