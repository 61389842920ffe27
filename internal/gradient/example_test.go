package gradient_test

import (
	"fmt"
	"time"

	"github.com/politehttp/polite/internal/gradient"
)

// A server of 30 workers that takes 10 ms a request, and more callers than it can
// bear: the limit grows from 20 until latency says that all workers are busy.
func Example() {
	const workers, service = 30, 10 * time.Millisecond

	limit := &gradient.Limit{Min: 4, Seed: 1}
	fmt.Println("starts at", limit.Limit())

	now := time.Duration(0)
	for now < 5*time.Second {
		n := limit.Limit() // all of it is in use
		latency := service * time.Duration(max(n, workers)) / workers
		limit.Sample(int64(now), int64(latency), n, false)
		now += latency / time.Duration(n) // when the next one ends
	}
	n := limit.Limit()
	fmt.Println("keeps all workers busy:", n >= workers)
	fmt.Println("with a short queue:", n <= 2*workers)
	// Output:
	// starts at 20
	// keeps all workers busy: true
	// with a short queue: true
}
