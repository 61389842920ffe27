package headerparse

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// plainHeader is a header as most responses have it, without limit fields.
func plainHeader(fields int) http.Header {
	names := [...][2]string{
		{"Content-Type", "application/json"},
		{"Date", "Sun, 01 Mar 2026 12:00:00 GMT"},
		{"Content-Length", "1234"},
		{"Server", "nginx"},
		{"Cache-Control", "no-store"},
		{"X-Request-Id", "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"Vary", "Accept-Encoding"},
		{"Etag", `"33a64df5"`},
		{"Strict-Transport-Security", "max-age=31536000"},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
		{"Set-Cookie", "a=b"},
	}
	h := http.Header{}
	for _, f := range names[:fields] {
		h.Set(f[0], f[1])
	}
	return h
}

var (
	sinkSignal Signal
	sinkLines  int
)

func rangeOver(h http.Header) (lines int) {
	for _, v := range h {
		lines += len(v)
	}
	return lines
}

// BenchmarkRange is what merely looking at every field costs.
func BenchmarkRange(b *testing.B) {
	for _, n := range []int{6, 12} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := plainHeader(n)
			b.ReportAllocs()
			for b.Loop() {
				sinkLines = rangeOver(h)
			}
		})
	}
}

// BenchmarkParseNone is what Parse costs on nearly every response: "ratio" is
// how many times the cost of BenchmarkRange it is. Both are measured in short
// turns of the same run, of which the fastest count, so that neither pays for
// what else the machine does.
func BenchmarkParseNone(b *testing.B) {
	for _, n := range []int{0, 6, 12} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := plainHeader(n)
			b.ReportAllocs()
			const turn = 100
			parse, look := time.Hour, time.Hour
			for b.Loop() {
				start := time.Now()
				for range turn {
					sinkSignal = Parse(200, h, time.Time{})
				}
				middle := time.Now()
				for range turn {
					sinkLines = rangeOver(h)
				}
				parse, look = min(parse, middle.Sub(start)), min(look, time.Since(middle))
			}
			b.ReportMetric(float64(parse)/turn, "ns/parse")
			b.ReportMetric(float64(look)/turn, "ns/range")
			b.ReportMetric(float64(parse)/float64(look), "ratio")
		})
	}
}

// BenchmarkParse is what a response with limit fields costs.
func BenchmarkParse(b *testing.B) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		status int
		fields [][2]string
	}{
		{"retry-after", 429, [][2]string{{"Retry-After", "30"}}},
		{"triple", 200, [][2]string{
			{"X-Ratelimit-Limit", "5000"}, {"X-Ratelimit-Remaining", "4987"}, {"X-Ratelimit-Reset", "1772368800"},
		}},
		{"structured", 200, [][2]string{
			{"Ratelimit", `"default";r=50;t=30`}, {"Ratelimit-Policy", `"default";q=100;w=60`},
		}},
		{"openai", 200, [][2]string{
			{"X-Ratelimit-Limit-Requests", "60"},
			{"X-Ratelimit-Remaining-Requests", "59"},
			{"X-Ratelimit-Reset-Requests", "1s"},
			{"X-Ratelimit-Limit-Tokens", "150000"},
			{"X-Ratelimit-Remaining-Tokens", "149000"},
			{"X-Ratelimit-Reset-Tokens", "6m0s"},
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := plainHeader(6)
			for _, f := range c.fields {
				h.Set(f[0], f[1])
			}
			b.ReportAllocs()
			for b.Loop() {
				sinkSignal = Parse(c.status, h, now)
			}
		})
	}
}
