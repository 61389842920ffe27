package limiter

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkGuard is what a Guard adds to a handler that does nothing.
func BenchmarkGuard(b *testing.B) {
	never := Per(1, time.Hour)
	always := Per(1_000_000_000, time.Second)
	bucket := func(name string, r Rate) *Limit { return made(TokenBucket(name, r, r.Count)) }
	for _, test := range []struct {
		name string
		g    *Guard
	}{
		{"admitted", &Guard{Rules: []Rule{{Key: ByAddress(nil), Limits: []*Limit{bucket("a", always)}}}}},
		{"refused", &Guard{Rules: []Rule{{Key: ByAddress(nil), Limits: []*Limit{bucket("a", never)}}}}},
		{"three rules", &Guard{Rules: []Rule{
			{Key: ByAddress(nil), Limits: []*Limit{bucket("a", always)}},
			{Pattern: "GET /users/{id}", Key: Global, Limits: []*Limit{bucket("b", always)}},
			{Pattern: "/users/", Key: Global, Limits: []*Limit{bucket("c", always)}},
			{Pattern: "POST /login", Key: Global, Limits: []*Limit{bucket("d", always)}},
		}}},
		{"no rule", &Guard{Rules: []Rule{{Pattern: "POST /login", Key: Global, Limits: []*Limit{bucket("a", always)}}}}},
	} {
		b.Run(test.name, func(b *testing.B) {
			h := test.g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			r := httptest.NewRequest("GET", "/users/17", nil)
			w := &discard{http.Header{}}
			h.ServeHTTP(w, r)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}
