package polite_test

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/idempotency"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// The names and types that programs compile against. A change here breaks them.
var (
	_ = headerparse.Limit{Name: "", Unit: "", Quota: headerparse.Unknown, Remaining: 0.5, Reset: headerparse.Unknown, Window: time.Second}
	_ = headerparse.Signal{Status: 0, Wait: 0, Told: false, Source: "", By: -1, Limits: []headerparse.Limit{}}

	_ func(int, http.Header, time.Time) headerparse.Signal = headerparse.Parse

	_                                                                           = pacer.Rate{Count: int64(1), Per: time.Second}
	_ func(int64, time.Duration) pacer.Rate                                     = pacer.Per
	_ func(int64, time.Duration, int64) (pacer.Rate, error)                     = pacer.Within
	_ []pacer.Shape                                                             = []pacer.Shape{pacer.TokenBucket, pacer.LeakyBucket}
	_ []pacer.Priority                                                          = []pacer.Priority{pacer.Interactive, pacer.Background}
	_ func(*pacer.Pacer, context.Context, string, int64) (func(), error)        = (*pacer.Pacer).Wait
	_ func(context.Context, ...pacer.Claim) (func(), error)                     = pacer.WaitAll
	_ func(*pacer.Pacer, pacer.Rate, int64)                                     = (*pacer.Pacer).SetRate
	_ func(*pacer.Pacer, string, time.Time)                                     = (*pacer.Pacer).Hold
	_ func(*pacer.Pacer, string, headerparse.Signal, time.Time)                 = (*pacer.Pacer).Observe
	_ func(*pacer.Pacer, context.Context, string, io.Reader) io.Reader          = (*pacer.Pacer).Reader
	_ func(context.Context, pacer.Priority) context.Context                     = pacer.WithPriority
	_ pacer.Reserver                                                            = reserver{}
	_ error                                                                     = &pacer.WaitError{Wait: time.Second}
	_ []error                                                                   = []error{pacer.ErrQueueFull, pacer.ErrTooLarge}
	_ func(*retry.Policy, int) time.Duration                                    = (*retry.Policy).Backoff
	_ func(*retry.Policy, int, time.Duration, func() float64) time.Duration     = (*retry.Policy).Jittered
	_ []string                                                                  = []string{retry.AttemptHeader, retry.DeadlineHeader}
	_                                                                           = retry.Policy{AttemptHeader: "", DeadlineHeader: ""}
	_                                                                           = &breaker.Throttle{K: 2, Window: time.Second, MaxReject: 0.9, MinCalls: 1, PassEvery: time.Second, MaxKeys: 1}
	_ func(*breaker.Throttle, string) (func(breaker.Outcome), error)            = (*breaker.Throttle).Acquire
	_ func(*breaker.Throttle, string, time.Time, float64) (breaker.Pass, error) = (*breaker.Throttle).Enter
	_ func(*breaker.Throttle, string, time.Time, float64) error                 = (*breaker.Throttle).Check
	_ error                                                                     = &breaker.ThrottleError{Key: "", Share: 0.5}
	_                                                                           = &pacer.Pacer{AdaptInFlight: true}
	_ func(*pacer.Pacer, string, bool)                                          = (*pacer.Pacer).Adapt
	_ func(*pacer.Pacer, string, time.Duration)                                 = (*pacer.Pacer).Took
	_ func(*pacer.Pacer, string) time.Duration                                  = (*pacer.Pacer).Takes
	_                                                                           = &polite.Transport{Throttle: (*breaker.Throttle)(nil)}
	_ http.RoundTripper                                                         = &retry.Transport{Base: nil, Policy: &retry.Policy{}}
	_ func(*retry.Transport)                                                    = (*retry.Transport).CloseIdleConnections
	_ func(context.Context, *retry.Policy) context.Context                      = retry.WithPolicy
	_ func(context.Context) context.Context                                     = retry.WithIdempotent
	_ []retry.Jitter                                                            = []retry.Jitter{retry.FullJitter, retry.NoJitter, retry.EqualJitter, retry.DecorrelatedJitter}
	_ interface{ Timeout() bool }                                               = (*retry.Error)(nil)
	_ interface{ Unwrap() []error }                                             = (*retry.Error)(nil)
	_ func(context.Context, string) context.Context                             = idempotency.WithKey
	_ func(...string) string                                                    = idempotency.Derive
	_ func(*breaker.Breaker, string, time.Time) (time.Duration, bool)           = (*breaker.Breaker).Open
	_ func(*breaker.Breaker, string) (func(breaker.Outcome), error)             = (*breaker.Breaker).Acquire
	_ []breaker.Outcome                                                         = []breaker.Outcome{breaker.Success, breaker.Failure, breaker.Unreachable, breaker.Throttled, breaker.Neutral}
	_ error                                                                     = &breaker.OpenError{Key: "", RetryAfter: time.Second}
	_ []quota.Period                                                            = []quota.Period{quota.Day, quota.Month, quota.Period(time.Hour)}
	_ func(*quota.Quota, context.Context, string, int64) (quota.Left, error)    = (*quota.Quota).Spend
	_ func(*quota.Quota, context.Context, string, quota.Left) error             = (*quota.Quota).Refund
	_ error                                                                     = &quota.SpentError{Quota: "", Left: int64(0), Resets: time.Time{}}
	_ quota.Store                                                               = (*quota.FileStore)(nil)
	_ func(http.RoundTripper) *polite.Transport                                 = polite.NewTransport
	_ func(*polite.Transport)                                                   = (*polite.Transport).CloseIdleConnections

	_ = &pacer.Pacer{
		Rate: pacer.Rate{}, Burst: int64(0), Shape: pacer.TokenBucket, MaxInFlight: 0, MaxQueue: 0, MaxWait: time.Second,
		MaxHold: time.Second, SpreadBelow: 0.1, MaxKeys: 0, Shared: pacer.Reserver(nil),
	}
	_ = pacer.Claim{Pacer: (*pacer.Pacer)(nil), Key: "", N: int64(1)}
	_ = pacer.Pace{Rate: pacer.Rate{}, Burst: int64(1), Shape: pacer.LeakyBucket}
	_ = pacer.Grant{Wait: time.Second, Cancel: func(context.Context) error { return nil }}
	_ = retry.Policy{
		MaxAttempts: 1, Base: time.Second, Cap: time.Second, Jitter: retry.FullJitter, MaxElapsed: time.Second, AttemptTimeout: time.Second,
		MaxRetryAfter: time.Second, Budget: retry.NoBudget, OutlastOpen: true, Key: func(*http.Request) string { return "" },
		Check: func(*retry.Attempt) retry.Verdict { return retry.Retry + retry.Stop },
	}
	_ = retry.Policy{Budget: &retry.Budget{}}
	_ = idempotency.Keys{Header: "", Methods: []string{}, Quote: true, New: func() string { return "" }}
	_ = &breaker.Breaker{
		Failures: 1, UnreachableOnly: true, FailureRate: 0.5, MinCalls: 1, Window: time.Second, SlowCall: time.Second, OpenFor: time.Second,
		MaxOpenFor: time.Second, Probes: 1, ProbeTimeout: time.Second, MaxKeys: 1, OnChange: func(key string, from, to breaker.State) {},
	}
	_ = &quota.Quota{
		Name: "", Limit: int64(1), Period: quota.Day, Location: time.UTC, Cost: func(*http.Request) int64 { return 1 },
		Actual: func(*http.Response) int64 { return 1 }, PerAttempt: true, Store: quota.Store(nil), OnLow: func(quota.Left) {},
	}
	_ = &polite.Transport{
		Base: nil, Account: func(*http.Request) string { return "" }, Cost: func(*http.Request) int64 { return 1 }, Keys: nil, Quotas: nil,
		Retry: nil, Breaker: nil, Pacer: nil, Lanes: []polite.Lane{{
			Pattern: "", Pacer: nil, Key: func(*http.Request) string { return "" }, Cost: func(*http.Request) int64 { return 1 }, Limits: []string{},
		}}, Fallback: func(*http.Request, error) (*http.Response, error) { return nil, nil }, Hooks: (*observe.Hooks)(nil),
	}
)

type reserver struct{}

func (reserver) Reserve(context.Context, string, pacer.Pace, int64, time.Duration) (pacer.Grant, error) {
	return pacer.Grant{}, nil
}
func (reserver) Hold(context.Context, string, time.Duration) error { return nil }
