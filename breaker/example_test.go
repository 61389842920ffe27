package breaker_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/politehttp/polite/breaker"
)

// get makes one guarded call.
func get(b *breaker.Breaker, c *http.Client, url string) error {
	done, err := b.Acquire(url)
	if err != nil {
		return err // nothing is sent
	}
	outcome := breaker.Neutral
	defer func() { done(outcome) }() // also if the call panics

	resp, err := c.Get(url)
	if err != nil {
		outcome = breaker.Unreachable
		return err
	}
	defer resp.Body.Close()
	outcome = breaker.Success
	if resp.StatusCode >= 500 {
		outcome = breaker.Failure
		return errors.New(resp.Status)
	}
	return nil
}

func Example() {
	arrived := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived++
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer provider.Close()

	b := &breaker.Breaker{
		Failures: 3,
		OnChange: func(_ string, from, to breaker.State) { fmt.Println(from, "to", to) },
	}
	for range 5 {
		err := get(b, provider.Client(), provider.URL)
		var open *breaker.OpenError
		if errors.As(err, &open) {
			fmt.Println("refused, nothing sent; ask again later:", open.RetryAfter > 10*time.Second)
			continue
		}
		fmt.Println(err)
	}
	fmt.Println("the provider saw", arrived)
	// Output:
	// 500 Internal Server Error
	// 500 Internal Server Error
	// closed to open
	// 500 Internal Server Error
	// refused, nothing sent; ask again later: true
	// refused, nothing sent; ask again later: true
	// the provider saw 3
}

// Ask before a wait, enter after it: no wait holds the place of a probe.
func ExampleBreaker_Open() {
	b := &breaker.Breaker{Failures: 1, OpenFor: time.Minute}
	const key = "https://api.example.com:443"
	now := time.Now()

	p, _ := b.Enter(key, now)
	p.Done(breaker.Unreachable, 90*time.Second, now) // it said: in 90 s

	left, open := b.Open(key, now)
	fmt.Println(open, left >= 90*time.Second)
	_, open = b.Open(key, now.Add(left-1))
	fmt.Println(open)
	_, open = b.Open(key, now.Add(left))
	fmt.Println(open)
	// Output:
	// true true
	// true
	// false
}
