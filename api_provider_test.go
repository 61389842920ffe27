package polite_test

import (
	"context"
	"net/http"
	"time"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/shed"
)

// The names and types of the provider's end that programs compile against; those
// of limits stand in limiter's own tests. A change here breaks them.
var (
	_ limiter.Rate                                        = limiter.Rate(pacer.Per(1, time.Second))
	_ func(*limiter.Limit, string, int64) limiter.Charge  = (*limiter.Limit).Charge
	_ func(*limiter.Limit, *limiter.Limit) *limiter.Limit = (*limiter.Limit).Replacing
	_ limiter.Store                                       = (*limiter.Memory)(nil)
	_                                                     = limiter.Charge{Limit: &limiter.Limit{Global: true, OnFailure: limiter.Open}, Key: "", Cost: int64(1)}
	_                                                     = limiter.Decision{
		Allowed: true, Never: false, By: (*limiter.Limit)(nil), Quota: int64(1), Remaining: int64(1), RetryAfter: time.Second,
		ResetAfter: time.Second, Delay: time.Second, Degraded: error(nil), Each: []limiter.Decision{},
	}
	_ func(*limiter.Memory, context.Context, []limiter.Decision, ...limiter.Charge) (limiter.Decision, error) = (*limiter.Memory).TakeInto
	_                                                                                                         = &limiter.Guard{Store: limiter.Store(nil), MaxDelay: time.Second, Rules: []limiter.Rule{{
		Pattern: "", Key: func(*http.Request) string { return "" }, Limits: []*limiter.Limit{},
		Cost: func(*http.Request) int64 { return 1 }, Tier: func(*http.Request) []*limiter.Limit { return nil },
	}}}
	_ func(*limiter.Guard, http.Handler) http.Handler = (*limiter.Guard).Handler
	_ func(*limiter.Guard) error                      = (*limiter.Guard).Check

	_ = &shed.Gate{
		Limit: 1, Adaptive: &shed.Adaptive{Min: 1, Max: 2, Initial: 1}, Queue: 1, Order: shed.Wine, MaxWait: time.Second,
		Tenant: func(*http.Request) string { return "" }, Priority: func(*http.Request) shed.Class { return shed.Critical },
	}
	_ func(http.ResponseWriter, *http.Request, limiter.Decision)       = limiter.Refuse
	_ []shed.Order                                                     = []shed.Order{shed.Wine, shed.Milk}
	_ []shed.Class                                                     = []shed.Class{shed.CriticalPlus, shed.Critical, shed.SheddablePlus, shed.Sheddable}
	_ func(*shed.Gate, http.Handler) http.Handler                      = (*shed.Gate).Handler
	_ func(*shed.Gate, context.Context) (func(), error)                = (*shed.Gate).Wait
	_ func(*shed.Gate, context.Context, shed.Entry) (shed.Slot, error) = (*shed.Gate).Enter
	_ func(*shed.Gate, int)                                            = (*shed.Gate).SetLimit
	_ func(*shed.Gate) error                                           = (*shed.Gate).Check
	_ func(*shed.Gate) shed.Stats                                      = (*shed.Gate).Stats
)
