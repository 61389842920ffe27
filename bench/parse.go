package bench

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/politehttp/polite/headerparse"
)

// Parsing asks what it costs to read what a response says about limits. The
// peers read Retry-After of 429 and 503, and nothing else; of that they are asked.
var Parsing = Group{"Parsing", []Question{
	parsing("no limit among 8 fields", 200, Header8()),
	parsing("429 with Retry-After", 429, with("Retry-After", "30")),
	parsing("draft 11", 200, with("Ratelimit-Policy", `"default";q=100;w=60`, "Ratelimit", `"default";r=50;t=30`)),
	parsing("six fields as OpenAI sends", 200, with(
		"X-Ratelimit-Limit-Requests", "60", "X-Ratelimit-Remaining-Requests", "59", "X-Ratelimit-Reset-Requests", "1s",
		"X-Ratelimit-Limit-Tokens", "150000", "X-Ratelimit-Remaining-Tokens", "149984", "X-Ratelimit-Reset-Tokens", "6m0s")),
}}

func parsing(name string, status int, h http.Header) Question {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	resp := &http.Response{StatusCode: status, Header: h}
	attempt := answered{response: resp}
	sides := []Side{
		always("map range", serial(func() {
			n := 0
			for name := range h {
				n += len(name)
			}
			runtime.KeepAlive(n)
		})),
		always("polite", serial(func() { runtime.KeepAlive(headerparse.Parse(status, h, now).Status) })),
	}
	if status == http.StatusTooManyRequests {
		sides = append(sides,
			always("strconv of Retry-After", serial(func() {
				n, _ := strconv.Atoi(h.Get("Retry-After"))
				runtime.KeepAlive(n)
			})),
			always("go-retryablehttp DefaultBackoff", serial(func() {
				runtime.KeepAlive(retryablehttp.DefaultBackoff(1, 2, 1, resp))
			})),
			always("failsafe-go DelayFunc", serial(func() { runtime.KeepAlive(failsafehttp.DelayFunc(attempt)) })),
		)
	}
	return Question{Name: name, Base: "map range", Sides: sides}
}

// answered is the part of an attempt that DelayFunc looks at.
type answered struct {
	failsafe.ExecutionAttempt[*http.Response]
	response *http.Response
}

func (a answered) LastResult() *http.Response { return a.response }

func with(pairs ...string) http.Header {
	h := Header8()
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = []string{pairs[i+1]}
	}
	return h
}
