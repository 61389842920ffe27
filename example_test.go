package polite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// The provider says no at first, and when to come back. The program does not
// notice.
func Example() {
	n := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, "hello")
	}))
	defer provider.Close()

	client := &http.Client{Transport: polite.NewTransport(nil)}
	resp, err := client.Get(provider.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(text))
	// Output: 200 OK hello
}

// What went wrong, most telling first: a refusal in the middle of a call is
// both itself and a *retry.Error.
func Example_errors() {
	explain := func(err error) string {
		var spent *quota.SpentError
		var open *breaker.OpenError
		var wait *pacer.WaitError
		var failed *retry.Error
		switch {
		case errors.As(err, &spent):
			return fmt.Sprintf("quota %s: %d left until %s", spent.Quota, spent.Left, spent.Resets)
		case errors.As(err, &open):
			return "down, ask again in " + open.RetryAfter.String()
		case errors.As(err, &wait):
			return "too busy for this call's deadline"
		case errors.Is(err, pacer.ErrQueueFull):
			return "too many calls wait already"
		case errors.As(err, &failed):
			return fmt.Sprintf("failed after %d tries: %s", failed.Sent, failed.Reason)
		}
		return err.Error()
	}

	t := &polite.Transport{Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Hour), MaxWait: time.Minute}}
	t.Base = roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	client := &http.Client{Transport: t}
	for range 2 {
		resp, err := client.Get("http://api.example.com/")
		if err != nil {
			fmt.Println(explain(err))
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 200
	// too busy for this call's deadline
}

// A slow lane for one path, and hooks that say what a call waited for.
func ExampleLane() {
	t := polite.NewTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	t.Lanes = []polite.Lane{{
		Pattern: "POST /messages",
		Pacer:   &pacer.Pacer{Rate: pacer.Per(20, time.Second), Burst: 1},
	}}
	t.Hooks = &observe.Hooks{Paced: func(_ context.Context, p observe.Paced) {
		if p.Wait > 0 {
			fmt.Println("waited for", p.Reason)
		}
	}}
	client := &http.Client{Transport: t}
	for range 2 {
		resp, err := client.Post("http://api.example.com/messages", "text/plain", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	// Output: waited for pace
}
