package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/throttled/throttled/v2"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"

	"github.com/politehttp/polite/limiter"
)

// Handlers asks what a middleware costs by itself: each request is served by a
// call, to a writer that keeps nothing.
var Handlers = Group{"Handlers", []Question{
	{Name: "admitted", Base: "none", Added: true, Sides: handlers(Passing)},
	{Name: "refused", Base: "none", Added: true, Sides: handlers(Refusing)},
}}

// Middlewares asks what is left of a server's throughput. 32 connections of one
// address send one request after the other, from another process.
var Middlewares = Group{"Middlewares", []Question{
	{Name: "admitted", Base: "none", Rounds: 9, Sides: servers(Passing), Metrics: throughput},
	{Name: "refused", Base: "none", Rounds: 9, Sides: servers(Refusing), Metrics: throughput},
}}

var throughput = []string{"requests/s", "µs-CPU", "µs-p50", "µs-p99"}

// Middleware limits a handler by the address of the connection.
type Middleware struct {
	Name string
	Over func(Regime, http.Handler) (http.Handler, func())
}

// Limited are the middlewares that are compared. None, where others refuse, is a
// handler that only writes 429.
var Limited = []Middleware{
	{"none", func(r Regime, next http.Handler) (http.Handler, func()) {
		if r == Refusing {
			next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
		}
		return next, func() {}
	}},
	{"one field", oneField},
	{"headers alone", headersAlone},
	{"polite", func(r Regime, next http.Handler) (http.Handler, func()) {
		guard := &limiter.Guard{Rules: []limiter.Rule{{
			Key: limiter.ByAddress(nil), Limits: []*limiter.Limit{bucket("default", r)},
		}}}
		return guard.Handler(next), func() {}
	}},
	{"x/time map, no headers", func(r Regime, next http.Handler) (http.Handler, func()) {
		allow, stop := XTimeMap(r)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if host, _, _ := net.SplitHostPort(r.RemoteAddr); !allow(host) {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		}), stop
	}},
	{"httprate", func(r Regime, next http.Handler) (http.Handler, func()) {
		byAddress := func(r *http.Request) (string, error) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			return httprate.CanonicalizeIP(host), err
		}
		return httprate.LimitBy(int(r.Burst), r.Per, byAddress)(next), func() {}
	}},
	{"go-limiter", func(r Regime, next http.Handler) (http.Handler, func()) {
		store := goLimiterStore(r)
		m := must(httplimit.NewMiddleware(store, httplimit.IPKeyFunc()))
		return m.Handle(next), func() { store.Close(context.Background()) }
	}},
	{"ulule", func(r Regime, next http.Handler) (http.Handler, func()) {
		return stdlib.NewMiddleware(ululeLimiter(r)).Handler(next), func() {}
	}},
	{"throttled", func(r Regime, next http.Handler) (http.Handler, func()) {
		m := throttled.HTTPRateLimiterCtx{RateLimiter: throttledLimiter(r), VaryBy: &throttled.VaryBy{RemoteAddr: true}}
		return m.RateLimit(next), func() {}
	}},
	{"tollbooth", func(r Regime, next http.Handler) (http.Handler, func()) {
		l := tollboothLimiter(r).SetIPLookups([]string{"RemoteAddr"})
		return tollbooth.LimitHandler(l, next), func() {}
	}},
}

// oneField sets what nearly every handler of an API sets itself, and refuses with
// http.Error. For the first field of an answer net/http makes a map and copies it,
// which costs more than all further fields together; that of none has no field.
func oneField(r Regime, next http.Handler) (http.Handler, func()) {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r == Refusing {
			http.Error(w, "Too Many Requests", http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		next.ServeHTTP(w, req)
	}), func() {}
}

// headersAlone sets the fields that ours sets, without a limiter.
func headersAlone(r Regime, next http.Handler) (http.Handler, func()) {
	policy := []string{`"default";q=1000000000;w=1`}
	left := r.Burst // at run time, so that it is formatted for each answer
	body := []byte(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
		`"detail":"Nothing is left of limit \"default\" (1 per 1h0m0s). Try again in 3600 seconds.",` +
		`"violated-policies":["default"],"limit":"default","quota":1,"remaining":0,"cost":1,"retry_after":3600}`)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h["Ratelimit-Policy"] = policy
		h["Ratelimit"] = []string{`"default";r=` + strconv.FormatInt(left, 10) + `;t=1`}
		if r != Refusing {
			next.ServeHTTP(w, req)
			return
		}
		h["Cache-Control"] = []string{"no-store"}
		h["Content-Type"] = []string{"application/problem+json"}
		h["Retry-After"] = []string{strconv.FormatInt(3_599+left, 10)}
		w.WriteHeader(http.StatusTooManyRequests)
		w.Write(body)
	}), func() {}
}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func handlers(r Regime) []Side {
	var sides []Side
	for _, m := range Limited {
		sides = append(sides, Side{m.Name, func() (func(*testing.B), func()) {
			h, stop := m.Over(r, nothing)
			req := httptest.NewRequest(http.MethodGet, "/v1/things", nil)
			w := &discard{header: make(http.Header)}
			h.ServeHTTP(w, req)
			return serial(func() {
				clear(w.header)
				w.status = http.StatusOK
				h.ServeHTTP(w, req)
				if (w.status == http.StatusTooManyRequests) != (r == Refusing) {
					panic(fmt.Sprint(m.Name, " answers ", w.status))
				}
			}), stop
		}})
	}
	return sides
}

// discard is a ResponseWriter that costs nothing.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

func servers(r Regime) []Side {
	var sides []Side
	for _, m := range Limited {
		sides = append(sides, Side{m.Name, func() (func(*testing.B), func()) {
			h, stop := m.Over(r, nothing)
			server := httptest.NewServer(h)
			must(server.Client().Get(server.URL)).Body.Close() // the one that Refusing admits
			l := load{server.Listener.Addr().String(), 32, small(700*time.Millisecond, time.Millisecond)}
			return once(func(b *testing.B) {
				before := processorTime()
				s := must(l.run())
				// Of a run of a millisecond the last answer of a connection may be its
				// first, which who counts by connection admits.
				if s.N >= 1000 && (s.Status == http.StatusTooManyRequests) != (r == Refusing) {
					panic(fmt.Sprint(m.Name, " answers ", s.Status))
				}
				b.ReportMetric(float64(s.N)/s.Took.Seconds(), "requests/s")
				b.ReportMetric(micros(processorTime()-before)/float64(s.N), "µs-CPU")
				b.ReportMetric(micros(s.P50), "µs-p50")
				b.ReportMetric(micros(s.P99), "µs-p99")
			}), func() { server.Close(); stop() }
		}})
	}
	return sides
}
