package provider

import "time"

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
	account bucket
	senders map[string]*bucket // as many as the list has senders
}

func newLimits() *limits {
	return &limits{account: bucket{rate: AccountRate, burst: AccountBurst}, senders: map[string]*bucket{}}
}

func (l *limits) take(sender string, now time.Time) *Refusal {
	s := l.senders[sender]
	if s == nil {
		s = &bucket{rate: SenderRate, burst: SenderBurst}
		l.senders[sender] = s
	}
	account, one := l.account.wait(now), s.wait(now)
	switch {
	case account == 0 && one == 0:
		l.account.left--
		s.left--
		return nil
	case account > one:
		return &Refusal{Limit: "account", Wait: account}
	default:
		return &Refusal{Limit: "sender", Wait: one}
	}
}

// bucket starts full and fills with the time.
type bucket struct {
	rate, burst float64
	left        float64
	at          time.Time // when left was true; zero: never used
}

// wait brings the bucket to now and says how long until it holds one token.
func (b *bucket) wait(now time.Time) time.Duration {
	switch {
	case b.at.IsZero():
		b.left, b.at = b.burst, now
	case now.After(b.at):
		b.left = min(b.burst, b.left+b.rate*now.Sub(b.at).Seconds())
		b.at = now
	}
	if b.left >= 1 {
		return 0
	}
	return time.Duration((1 - b.left) / b.rate * float64(time.Second))
}
