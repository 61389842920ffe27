package pacer_test

import (
	"context"
	"fmt"

	"github.com/politehttp/polite/pacer"
)

// How many calls a provider can take at once shows in what it drops.
func ExamplePacer_Adapt() {
	p := &pacer.Pacer{AdaptInFlight: true}
	call := func(dropped bool) {
		release, err := p.Wait(context.Background(), "account-7", 1)
		if err != nil {
			return
		}
		defer release()
		// the call; then what it came to: 429, 503 and a timeout are drops
		p.Adapt("account-7", dropped)
	}
	_, limit := p.InFlight("account-7")
	fmt.Println(limit, "to begin with")
	call(true)
	_, limit = p.InFlight("account-7")
	fmt.Println(limit, "after a drop")
	// Output:
	// 20 to begin with
	// 18 after a drop
}
