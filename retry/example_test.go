package retry_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/politehttp/polite/retry"
)

func Example() {
	n := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s: done at attempt %d", body, n)
	}))
	defer provider.Close()

	client := &http.Client{Transport: &retry.Transport{
		Policy: &retry.Policy{Base: time.Millisecond, AttemptTimeout: 10 * time.Second},
	}}
	// A POST may act twice when it is repeated. A key that the provider honours
	// makes it safe; without one, the first 503 would be the answer.
	r, _ := http.NewRequest(http.MethodPost, provider.URL, strings.NewReader("order"))
	r.Header.Set("Idempotency-Key", "order-4711")
	resp, err := client.Do(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(text))
	// Output: 200 OK order: done at attempt 3
}

// One call has its own policy, for every attempt of it.
func ExampleWithPolicy() {
	attempts := 0
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		attempts++
		return status(http.StatusBadGateway)(r)
	})
	client := &http.Client{Transport: &retry.Transport{Base: base}}

	r, _ := http.NewRequest(http.MethodGet, "https://api.example.com/report", nil)
	once := &retry.Policy{MaxAttempts: 1}
	resp, err := client.Do(r.WithContext(retry.WithPolicy(r.Context(), once)))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", attempts, "attempt")
	// Output: 502 after 1 attempt
}

func ExamplePolicy_Backoff() {
	var p retry.Policy
	for n := range 6 {
		fmt.Print(p.Backoff(n+1), " ")
	}
	// Output: 500ms 1s 2s 4s 8s 10s
}
