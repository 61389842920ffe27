package shed_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/politehttp/polite/shed"
)

var sinkTime time.Time

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		sinkTime = time.Now()
	}
}

// BenchmarkEnter is an uncontended admit: in, and out again.
func BenchmarkEnter(b *testing.B) {
	g := &shed.Gate{Limit: 100}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		slot, err := g.Enter(ctx, shed.Entry{})
		if err != nil {
			b.Fatal(err)
		}
		slot.Leave()
	}
}

type nothing struct{}

func (nothing) ServeHTTP(http.ResponseWriter, *http.Request) {}

// BenchmarkHandler is the same by HTTP, with what net/http sends: few headers.
func BenchmarkHandler(b *testing.B) {
	for _, c := range []struct {
		name string
		gate *shed.Gate
	}{
		{"fixed, no sub-calls", &shed.Gate{Limit: 100, NoSubCalls: true}},
		{"fixed", &shed.Gate{Limit: 100}},
		{"adaptive, no sub-calls", &shed.Gate{NoSubCalls: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := c.gate.Handler(nothing{})
			r := httptest.NewRequestWithContext(b.Context(), "GET", "/things/7", nil)
			r.Header.Set("User-Agent", "x")
			r.Header.Set("Accept", "*/*")
			r.Header.Set("Accept-Encoding", "gzip")
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
