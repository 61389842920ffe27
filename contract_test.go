package polite_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/idempotency"
	"github.com/politehttp/polite/internal/rttest"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// everything is a Transport with every room in use.
func everything(base http.RoundTripper) *polite.Transport {
	t := polite.NewTransport(base)
	t.Keys = &idempotency.Keys{}
	t.Quotas = []*quota.Quota{{Name: "day", Limit: 1e6, Period: quota.Day, Actual: func(*http.Response) int64 { return 2 }}}
	t.Pacer = &pacer.Pacer{Rate: pacer.Per(1000, time.Second), Burst: 1000, MaxInFlight: 100, AdaptInFlight: true}
	t.Throttle = &breaker.Throttle{}
	t.Retry.AttemptHeader, t.Retry.DeadlineHeader = retry.AttemptHeader, retry.DeadlineHeader
	t.Lanes = []polite.Lane{
		{Pattern: "/", Pacer: &pacer.Pacer{Rate: pacer.Per(1000, time.Second), Burst: 1000}},
		{Pacer: &pacer.Pacer{}, Limits: []string{"*"}},
	}
	t.Hooks = &observe.Hooks{Answered: func(context.Context, observe.Answer) {}}
	return t
}

// The contract of http.RoundTripper, for the recommended Transport and for one
// with every room in use, and for all the ways in which a room refuses.
func TestContract(t *testing.T) {
	ctx := context.Background()
	// One for all, for it takes long to make: every bubble begins at the same time.
	refusing := sync.OnceValue(func() *breaker.Throttle {
		th := &breaker.Throttle{MaxReject: 1, MinCalls: 1000, PassEvery: -1}
		for range 300_000 { // all but one in as many
			p, _ := th.Enter("http://provider.test:80", time.Time{}, 1)
			p.Done(breaker.Failure, time.Time{})
		}
		return th
	})
	refusals := []rttest.Option{
		rttest.Refuses("breaker open", func(base http.RoundTripper) http.RoundTripper {
			t := everything(base)
			t.Breaker = &breaker.Breaker{Failures: 1, OpenFor: time.Hour}
			done, _ := t.Breaker.Acquire("http://provider.test:80") // the host of rttest
			done(breaker.Failure)
			return t
		}),
		rttest.Refuses("throttle", func(base http.RoundTripper) http.RoundTripper {
			t := everything(base)
			t.Throttle = refusing()
			return t
		}),
		rttest.Refuses("pacer", func(base http.RoundTripper) http.RoundTripper {
			t := everything(base)
			t.Account = func(*http.Request) string { return "one" }
			t.Pacer = &pacer.Pacer{Rate: pacer.Per(1, time.Hour), Burst: 1, MaxWait: time.Minute}
			t.Pacer.Wait(ctx, "one", 1)
			return t
		}),
		rttest.Refuses("quota", func(base http.RoundTripper) http.RoundTripper {
			t := everything(base)
			t.Account = func(*http.Request) string { return "one" }
			t.Quotas[0].Limit = 1
			t.Quotas[0].Spend(ctx, "one", 1)
			return t
		}),
		rttest.Refuses("second lane", func(base http.RoundTripper) http.RoundTripper {
			t := everything(base)
			t.Lanes[1] = polite.Lane{Pacer: &pacer.Pacer{Burst: 1, Rate: pacer.Per(1, time.Second)}, Cost: func(*http.Request) int64 { return 2 }}
			return t
		}),
		rttest.Waits("pace", func(base http.RoundTripper) http.RoundTripper {
			t := everything(base)
			t.Account = func(*http.Request) string { return "one" }
			t.Pacer = &pacer.Pacer{Rate: pacer.Per(1, 2*time.Minute), Burst: 1}
			t.Pacer.Wait(ctx, "one", 1)
			return t
		}),
		rttest.Waits("hold", func(base http.RoundTripper) http.RoundTripper {
			t := everything(base)
			t.Account = func(*http.Request) string { return "one" }
			t.Pacer.Hold("one", time.Now().Add(2*time.Minute))
			return t
		}),
	}
	t.Run("recommended", func(t *testing.T) {
		rttest.Run(t, func(base http.RoundTripper) http.RoundTripper { return polite.NewTransport(base) })
	})
	t.Run("everything", func(t *testing.T) {
		rttest.Run(t, func(base http.RoundTripper) http.RoundTripper { return everything(base) },
			append(refusals, rttest.Adds("Idempotency-Key", retry.AttemptHeader, retry.DeadlineHeader))...)
	})
	t.Run("nothing", func(t *testing.T) {
		rttest.Run(t, func(base http.RoundTripper) http.RoundTripper { return &polite.Transport{Base: base} }, rttest.WithoutRetry())
	})
}
