package limiter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/politehttp/polite/limiter"
)

func Example() {
	// One message a minute, and after a pause up to three at once.
	perUser, err := limiter.TokenBucket("sms", limiter.Per(1, time.Minute), 3)
	if err != nil {
		panic(err)
	}
	var memory limiter.Memory
	for range 4 {
		d, err := memory.Take(context.Background(), perUser.Charge("alice", 1))
		if err != nil {
			panic(err)
		}
		if d.Allowed {
			fmt.Println("sent,", d.Remaining, "left")
		} else {
			fmt.Println("refused, come back in", d.RetryAfter.Round(time.Second))
		}
	}
	// Output:
	// sent, 2 left
	// sent, 1 left
	// sent, 0 left
	// refused, come back in 1m0s
}

// A user's limit, a tenant's limit and a quota are charged in one step: all or
// none.
func Example_stack() {
	user, _ := limiter.TokenBucket("user", limiter.Per(1, time.Minute), 2)
	tenant, _ := limiter.SlidingCounter("tenant", 100, time.Hour)
	month, err := limiter.Quota("month", 100_000, limiter.Month, nil)
	if err != nil {
		panic(err)
	}
	var memory limiter.Memory
	for _, name := range []string{"alice", "alice", "alice", "bob"} {
		d, err := memory.Take(context.Background(),
			user.Charge(name, 1), tenant.Charge("acme", 1), month.Charge("acme", 1))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %t by %s, %d of the month left\n", name, d.Allowed, d.By.Name(), d.Each[2].Remaining)
	}
	// Output:
	// alice: true by user, 99999 of the month left
	// alice: true by user, 99998 of the month left
	// alice: false by user, 99998 of the month left
	// bob: true by user, 99997 of the month left
}

// A cost that can never pass is not to be tried again.
func ExampleDecision() {
	exports, err := limiter.TokenBucket("exports", limiter.Per(5, time.Second), 30)
	if err != nil {
		panic(err)
	}
	var memory limiter.Memory
	d, _ := memory.Take(context.Background(), exports.Charge("alice", 31))
	fmt.Println(d.Allowed, d.Never, d.Remaining)
	d, _ = memory.Take(context.Background(), exports.Charge("alice", 25))
	fmt.Println(d.Allowed, d.Never, d.Remaining)
	// Output:
	// false true 30
	// true false 5
}

// Raised from 10 to 20 with 4 in use, a limit has 16 left.
func ExampleLimit_Replacing() {
	old, _ := limiter.FixedWindow("hour", 10, time.Hour, limiter.ToFirst)
	var memory limiter.Memory
	d, _ := memory.Take(context.Background(), old.Charge("alice", 4))
	fmt.Println(d.Remaining)

	raised, _ := limiter.FixedWindow("hour", 20, time.Hour, limiter.ToFirst)
	raised = raised.Replacing(old)
	d, _ = memory.Take(context.Background(), raised.Charge("alice", 0))
	fmt.Println(d.Remaining)
	// Output:
	// 6
	// 16
}

func ExampleLeakyQueue() {
	queue, err := limiter.LeakyQueue("printer", limiter.Per(1, time.Minute), 3)
	if err != nil {
		panic(err)
	}
	var memory limiter.Memory
	for range 4 {
		d, _ := memory.Take(context.Background(), queue.Charge("all", 1))
		fmt.Println(d.Allowed, d.Delay.Round(time.Second))
	}
	// Output:
	// true 1m0s
	// true 2m0s
	// true 3m0s
	// false 0s
}

// A constructor says what is wrong, as numbers often come from a file.
func ExampleTokenBucket_errors() {
	_, err := limiter.TokenBucket("user", limiter.Per(10, time.Second), 0)
	fmt.Println(err)
	_, err = limiter.TokenBucket("user", limiter.Per(1, 24*time.Hour), 200_000)
	fmt.Println(err)
	// Output:
	// limiter: TokenBucket "user": burst 0 is not positive: it could never admit anything
	// limiter: TokenBucket "user": burst 200000 at 1 per 24h0m0s cannot be exact: it may be 53375 at most
}
