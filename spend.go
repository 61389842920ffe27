package polite

import (
	"context"
	"net/http"
	"time"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// spending is what a call or a try took from a quota.
type spending struct {
	quota *quota.Quota
	left  quota.Left
}

// spend takes what the call costs from every quota, or from none. A quota that
// counts tries is spent by spendTry.
func (c *call) spend() (err error) {
	c.spent, err = c.spendAll(c.spent, false)
	return err
}

// spendTry takes what one try costs from the quotas that count tries.
func (c *call) spendTry() (spent []spending, err error) {
	return c.spendAll(nil, true)
}

func (c *call) spendAll(spent []spending, perAttempt bool) ([]spending, error) {
	for _, q := range c.t.Quotas {
		if q.PerAttempt != perAttempt {
			continue
		}
		cost := max(0, c.cost) // nothing to pace is nothing to pay
		if q.Cost != nil {
			cost = q.Cost(c.retry.Request)
		}
		if cost == 0 && q.Actual == nil {
			continue
		}
		left, err := q.Spend(c.ctx(), c.account, cost)
		if err != nil {
			c.refund(spent)
			return spent[:0], c.withCause(err)
		}
		spent = append(spent, spending{q, left})
	}
	return spent, nil
}

// refusedByQuota reports a call that ends before its first try.
func (c *call) refusedByQuota(err error) {
	h := observe.From(c.ctx())
	if h == nil || h.GaveUp == nil {
		return
	}
	r := c.retry.Request
	a := observe.Attempt{Method: r.Method, Host: c.retry.Origin, N: 1}
	if a.Method == "" {
		a.Method = http.MethodGet
	}
	h.GaveUp(c.ctx(), observe.GaveUp{Attempt: a, Err: err, Reason: observe.Refused})
}

// settle gives back what was provably not used, and corrects the cost of what
// was by the answer. A store that fails here leaves the amount spent: too much
// is the safe side.
func (c *call) settle(spent []spending, resp *http.Response, untouched bool) {
	if untouched {
		c.refund(spent)
		return
	}
	for _, s := range spent {
		if s.quota.Actual == nil || resp == nil {
			continue
		}
		if actual := s.quota.Actual(resp); actual >= 0 {
			_ = s.quota.Settle(context.WithoutCancel(c.ctx()), c.account, s.left, actual)
		}
	}
}

// settleCall is settle for the quotas that count calls. If Actual panics, nobody
// gets the response.
func (c *call) settleCall(resp *http.Response, untouched bool) {
	settled := false
	defer func() {
		if !settled && resp != nil {
			resp.Body.Close()
		}
	}()
	c.settle(c.spent, resp, untouched)
	settled = true
}

// refund works for a caller that is gone, too.
func (c *call) refund(spent []spending) {
	for _, s := range spent {
		_ = s.quota.Refund(context.WithoutCancel(c.ctx()), c.account, s.left)
	}
}

// correct tells the quotas what the provider has counted.
func (c *call) correct(s headerparse.Signal) {
	for _, q := range c.t.Quotas {
		mine := s
		if q.Cost == nil && c.t.Cost != nil {
			// It counts in the Transport's units: what the provider counts in
			// requests is not its count.
			mine = split(s, func(l *headerparse.Limit) bool { return l != nil && l.Name == q.Name })
		}
		q.Observe(c.ctx(), c.account, mine, time.Time{}) // periods go by the wall clock
	}
}

var (
	_ retry.Sender     = (*call)(nil)
	_ retry.Forecaster = (*call)(nil)
)
