package headerparse_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/politehttp/polite/headerparse"
)

// A provider refuses, and says which of its limits is spent.
func Example() {
	h := http.Header{}
	h.Set("RateLimit-Policy", `"account";q=100;w=60, "sender";q=1;w=1`)
	h.Set("RateLimit", `"account";r=63;t=12, "sender";r=0;t=1`)
	h.Set("Retry-After", "1")

	s := headerparse.Parse(http.StatusTooManyRequests, h, time.Now())
	fmt.Println("wait", s.Wait, "says", s.Source, "for", s.Limits[s.By].Name)
	for _, l := range s.Limits {
		fmt.Printf("%s: %v of %v left for %v\n", l.Name, l.Remaining, l.Quota, l.Window)
	}
	// Output:
	// wait 1s says Retry-After for sender
	// account: 63 of 100 left for 1m0s
	// sender: 0 of 1 left for 1s
}

// The same field name is an instant at one provider and a delay at another;
// the number says which. Instants are compared with the server's own clock.
func ExampleParse_instant() {
	for _, reset := range []string{"1791374400", "1791374400000", "2700", "2026-10-07T12:00:00Z"} {
		h := http.Header{}
		h.Set("Date", "Wed, 07 Oct 2026 11:15:00 GMT")
		h.Set("X-RateLimit-Remaining", "0")
		h.Set("X-RateLimit-Reset", reset)
		fmt.Println(headerparse.Parse(http.StatusTooManyRequests, h, time.Now()).Wait)
	}
	// Output:
	// 45m0s
	// 45m0s
	// 45m0s
	// 45m0s
}

// Nothing told is not the same as zero told.
func ExampleParse_nothing() {
	silent := headerparse.Parse(http.StatusTooManyRequests, nil, time.Now())
	zero := headerparse.Parse(http.StatusTooManyRequests, http.Header{"Retry-After": {"0"}}, time.Now())
	fmt.Println(silent.Told, silent.Wait)
	fmt.Println(zero.Told, zero.Wait)
	// Output:
	// false 0s
	// true 0s
}
