package retry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/politehttp/polite/retry"
)

// flaky is a base in memory, whose calls fail n times before they succeed.
type flaky struct{ n, at int }

func (f *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	status := http.StatusOK
	if f.at < f.n {
		f.at++
		status = http.StatusServiceUnavailable
	} else {
		f.at = 0
	}
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return &http.Response{StatusCode: status, Header: emptyHeader, Body: http.NoBody, Request: r}, nil
}

var emptyHeader = http.Header{}

func benchmark(b *testing.B, base http.RoundTripper, r *http.Request) {
	b.ReportAllocs()
	for b.Loop() {
		if r.GetBody != nil {
			r.Body, _ = r.GetBody()
		}
		resp, err := base.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp, err)
		}
		resp.Body.Close()
	}
}

func get() *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "http://api.example.com/v1", nil)
	return r
}

func post() *http.Request {
	r, _ := http.NewRequest(http.MethodPost, "http://api.example.com/v1", bytes.NewReader(make([]byte, 1024)))
	return r
}

var (
	noWait      = &retry.Policy{Base: -1, Budget: retry.NoBudget}
	withTimeout = &retry.Policy{Base: -1, Budget: retry.NoBudget, AttemptTimeout: 30 * time.Second}
)

func BenchmarkBase(b *testing.B) { benchmark(b, &flaky{}, get()) }

func BenchmarkSuccess(b *testing.B) {
	benchmark(b, &retry.Transport{Base: &flaky{}}, get())
}

func BenchmarkSuccessNoBudget(b *testing.B) {
	benchmark(b, &retry.Transport{Base: &flaky{}, Policy: noWait}, get())
}

func BenchmarkSuccessTimeout(b *testing.B) {
	benchmark(b, &retry.Transport{Base: &flaky{}, Policy: &retry.Policy{AttemptTimeout: 30 * time.Second}}, get())
}

func BenchmarkSuccessTimeoutCancellable(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	benchmark(b, &retry.Transport{Base: &flaky{}, Policy: &retry.Policy{AttemptTimeout: 30 * time.Second}}, get().WithContext(ctx))
}

func BenchmarkFailTwice(b *testing.B) {
	benchmark(b, &retry.Transport{Base: &flaky{n: 2}, Policy: noWait}, get())
}

func BenchmarkFailTwiceTimeout(b *testing.B) {
	benchmark(b, &retry.Transport{Base: &flaky{n: 2}, Policy: withTimeout}, get())
}

func BenchmarkBasePost(b *testing.B) { benchmark(b, &flaky{}, post()) }

func BenchmarkPost(b *testing.B) {
	benchmark(b, &retry.Transport{Base: &flaky{}, Policy: noWait}, post())
}

func BenchmarkPostKey(b *testing.B) {
	r := post()
	r.Header.Set("Idempotency-Key", "k")
	benchmark(b, &retry.Transport{Base: &flaky{}, Policy: withTimeout}, r)
}

func BenchmarkPostKeyFailTwice(b *testing.B) {
	r := post()
	r.Header.Set("Idempotency-Key", "k")
	benchmark(b, &retry.Transport{Base: &flaky{n: 2}, Policy: withTimeout}, r)
}
