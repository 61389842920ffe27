package limiter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/politehttp/polite/limiter"
)

// A generous limit for every address, and a strict one where passwords are
// tried.
func ExampleGuard() {
	reads, err := limiter.TokenBucket("reads", limiter.Per(10, time.Second), 20)
	if err != nil {
		panic(err)
	}
	logins, err := limiter.FixedWindow("logins", 2, time.Minute, limiter.ToFirst)
	if err != nil {
		panic(err)
	}
	guard := &limiter.Guard{
		Contact: "https://example.com/support",
		Rules: []limiter.Rule{
			{Key: limiter.ByAddress(nil), Limits: []*limiter.Limit{reads}},
			{Pattern: "POST /login", Key: limiter.ByAddress(nil), Limits: []*limiter.Limit{logins}},
		},
	}
	api := http.NewServeMux()
	api.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {})
	api.Handle("GET /limits", guard.Policies())
	handler := guard.Handler(api) // what a server serves

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/login", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
		if w.Code == http.StatusTooManyRequests {
			fmt.Println("Retry-After:", w.Header().Get("Retry-After"))
		}
	}
	// Output:
	// 200 "reads";r=19;t=1, "logins";r=1;t=60
	// 200 "reads";r=18;t=1, "logins";r=0;t=60
	// 429 "reads";r=18;t=1, "logins";r=0;t=60
	// Retry-After: 60
}
