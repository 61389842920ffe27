package observe_test

import (
	"context"
	"fmt"
	"time"

	"github.com/politehttp/polite/observe"
)

// Count what a client waited for. The hooks travel in the context of a call;
// here a room reports to them by hand.
func Example() {
	waited := map[observe.Reason]time.Duration{}
	ctx := observe.With(context.Background(), &observe.Hooks{
		Retried: func(_ context.Context, r observe.Retry) { waited[r.Reason] += r.Wait },
	})

	if h := observe.From(ctx); h != nil && h.Retried != nil {
		h.Retried(ctx, observe.Retry{Wait: 30 * time.Second, Reason: observe.Told})
	}
	fmt.Println(waited)
	// Output: map[told:30s]
}
