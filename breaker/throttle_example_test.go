package breaker_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/politehttp/polite/breaker"
)

// A provider that accepts one call in five is sent two for each that it
// accepts, and not all five.
func ExampleThrottle() {
	t := new(breaker.Throttle)
	const key = "https://api.example.com:443"
	now := time.Now()

	for i := range 100 { // a number that would pass at any share
		pass, _ := t.Enter(key, now, 0.999)
		if i%5 == 0 {
			pass.Done(breaker.Success, now)
		} else {
			pass.Done(breaker.Throttled, now)
		}
	}
	fmt.Printf("%.2f of the calls are kept back\n", t.Share(key, now))

	_, err := t.Enter(key, now, 0.3) // less than the share
	var kept *breaker.ThrottleError
	fmt.Println(errors.As(err, &kept))
	_, err = t.Enter(key, now, 0.7)
	fmt.Println(err)
	fmt.Printf("%.2f after ten seconds\n", t.Share(key, now.Add(10*time.Second)))
	// Output:
	// 0.59 of the calls are kept back
	// true
	// <nil>
	// 0.00 after ten seconds
}
