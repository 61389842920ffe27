package provider

import (
	"context"
	"errors"
	"time"

	"github.com/politehttp/polite/limiter"
)

// The limits of an account and of one sender number, in messages a second and
// messages at once. An attempt that is refused takes nothing.
const (
	AccountRate, AccountBurst = 10, 20
	SenderRate, SenderBurst   = 1, 2
)

// Refusal says which limit refused, and for how long.
type Refusal struct {
	Limit string // "account" or "sender"
	Wait  time.Duration
}

// limits are two token buckets, taken from together or not at all.
type limits struct {
	account, sender *limiter.Limit
	spent           limiter.Memory
}

func newLimits() (*limits, error) {
	account, err := limiter.TokenBucket("account", limiter.Per(AccountRate, time.Second), AccountBurst)
	sender, err2 := limiter.TokenBucket("sender", limiter.Per(SenderRate, time.Second), SenderBurst)
	return &limits{account: account, sender: sender}, errors.Join(err, err2)
}

func (l *limits) take(ctx context.Context, sender string) (*Refusal, error) {
	d, err := l.spent.Take(ctx, l.account.Charge("the only one", 1), l.sender.Charge(sender, 1))
	if err != nil || d.Allowed {
		return nil, err
	}
	return &Refusal{Limit: d.By.Name(), Wait: d.RetryAfter}, nil
}
