package idempotency_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/politehttp/polite/idempotency"
)

// A nightly job sends row 17 of its list. Killed and started again, it sends
// the row with the same key, and the provider delivers it once.
func Example() {
	ctx := idempotency.WithKey(context.Background(), idempotency.Derive("newsletter-2026-11", "17"))
	r, err := http.NewRequestWithContext(ctx, "POST", "https://sms.example/messages", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var keys *idempotency.Keys // nil: only keys that the caller chose
	header, key, err := keys.For(r)
	fmt.Println(header, key, err)
	// Output: Idempotency-Key umnyejbIKXBaadam3Y1J5CKblYHF3TJZ <nil>
}
