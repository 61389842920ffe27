package main

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/limiter/clientip"
)

const exportCost = 25 // units; everything else costs one

// rules say who may do how much.
type rules struct {
	anonymous *limiter.Limit
	login     *limiter.Limit
	plans     []limiter.Plan // of the signed in, by plan and region
	callers   *clientip.Source
}

func newRules() (*rules, error) {
	var failed error
	must := func(l *limiter.Limit, err error) *limiter.Limit {
		failed = errors.Join(failed, err)
		return l
	}
	rate := func(name string, perSecond, burst int64) *limiter.Limit {
		return must(limiter.TokenBucket(name, limiter.Per(perSecond, time.Second), burst))
	}
	plan := func(name, region string, limits ...*limiter.Limit) limiter.Plan {
		return limiter.Plan{Name: tier(name, region), Limits: limits}
	}
	trial := must(limiter.Quota("day", 60, limiter.Day, time.UTC))
	month := must(limiter.Quota("month", 500_000, limiter.Month, time.UTC))
	r := &rules{
		anonymous: rate("anonymous", 5, 10),
		login:     must(limiter.SlidingLog("login", 5, time.Minute)), // exact, and small: five instants a caller
		plans: []limiter.Plan{ // a burst holds at least one export, or none could ever pass
			plan("free", "eu", rate("free-eu", 5, 30), trial),
			plan("free", "us", rate("free-us", 3, 30), trial),
			plan("pro", "eu", rate("pro-eu", 20, 60), month),
			plan("pro", "us", rate("pro-us", 10, 30), month),
			plan("business", "eu", rate("business-eu", 100, 200)),
			plan("business", "us", rate("business-us", 50, 100)),
		},
		// A load balancer on this machine says who calls; nobody else is believed.
		callers: &clientip.Source{
			Header:  "X-Forwarded-For",
			Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		},
	}
	return r, errors.Join(failed, r.callers.Check())
}

// list is what the guard asks of every request. All that applies is charged
// together, or nothing is.
func (r *rules) list() []limiter.Rule {
	address := limiter.ByAddress(r.callers)
	return []limiter.Rule{{
		Title:  "Without signing in, for each address",
		Key:    address,
		Limits: []*limiter.Limit{r.anonymous},
		Exempt: signedIn,
	}, {
		Title:   "Signing in, for each address",
		Pattern: "POST /login",
		Key:     address,
		Limits:  []*limiter.Limit{r.login},
	}, {
		Title:  "Signed in, for each user: a read is 1 unit, an export 25",
		Key:    limiter.ByUser(userName),
		Tier:   r.tier,
		Plans:  r.plans,
		Cost:   cost,
		Exempt: anonymous,
	}}
}

// tier are the limits of who is signed in.
func (r *rules) tier(q *http.Request) []*limiter.Limit {
	a := accountOf(q)
	return r.of(a.plan, a.region)
}

// of are the limits of a plan in a region.
func (r *rules) of(plan, region string) []*limiter.Limit {
	for _, p := range r.plans {
		if p.Name == tier(plan, region) {
			return p.Limits
		}
	}
	return nil
}

func tier(plan, region string) string { return plan + " in " + region }

func cost(r *http.Request) int64 {
	if r.URL.Path == "/export" {
		return exportCost
	}
	return 1
}
