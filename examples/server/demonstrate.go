package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/politehttp/polite/limiter"
)

// pair is the same work for two: one listens, one does not. Each has an address
// and an account of its own, so that neither takes from the other.
type pair struct {
	who    string
	limits []*limiter.Limit
	polite *caller // nil: there is no polite way to do this
	naive  *caller
}

func (r *rules) pairs() []*pair {
	reads := func(plan, region string) *pair {
		return twins(plan+", "+region, plan+"."+region, "/parcels/7", 1, r.of(plan, region))
	}
	all := []*pair{
		twins("anonymous", "", "/parcels/7", 1, []*limiter.Limit{r.anonymous}),
		reads("free", "eu"),
		reads("pro", "eu"),
		reads("pro", "us"),
		reads("business", "eu"),
		twins("business, us: exports", "business.us", "/export", exportCost, r.of("business", "us")),
		{
			who: "guesses passwords", limits: []*limiter.Limit{r.login},
			naive: &caller{method: http.MethodPost, path: "/login", cost: 1, account: "ada.pro.eu", guessing: true},
		},
	}
	n := 0
	for _, p := range all {
		for _, c := range p.both() {
			n++
			c.address = fmt.Sprintf("198.51.100.%d", n)
		}
	}
	return all
}

func twins(who, account, path string, cost int64, limits []*limiter.Limit) *pair {
	p := &pair{who: who, limits: limits}
	p.polite = &caller{method: http.MethodGet, path: path, cost: cost, polite: true}
	p.naive = &caller{method: http.MethodGet, path: path, cost: cost}
	if account != "" {
		p.polite.account, p.naive.account = "ada."+account, "bob."+account
	}
	return p
}

func (p *pair) both() []*caller {
	if p.polite == nil {
		return []*caller{p.naive}
	}
	return []*caller{p.polite, p.naive}
}

// demonstrate lets all pairs call the API for so long, and says what came of it.
func demonstrate(ctx context.Context, period time.Duration, out io.Writer) (err error) {
	r, err := start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	base := &http.Transport{MaxIdleConnsPerHost: 64}
	defer base.CloseIdleConnections()

	pairs := r.rules.pairs()
	fmt.Fprintf(out, intro, r.url, period, naivePause, workers)
	hide := show(out, pairs, period)
	together(ctx, base, r.url, period, pairs)
	hide()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	report(out, pairs, period)
	if err := seen(out, r.adminURL); err != nil {
		return err
	}
	return problems(pairs)
}

const intro = `The API is at %s. For %s everyone calls it as fast as
they may, twice: with polite.NewTransport, and with an http.Client that tries
again %s after a refusal. Each has %d workers, and limits of its own.

`

// together lets them all call at once.
func together(ctx context.Context, base http.RoundTripper, url string, period time.Duration, pairs []*pair) {
	ctx, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range pairs {
		for _, c := range p.both() {
			all.Go(func() { c.work(ctx, base, url) })
		}
	}
	all.Wait()
}

// problems are what went wrong and should not have.
func problems(pairs []*pair) error {
	var all []error
	for _, p := range pairs {
		for _, c := range p.both() {
			if c.problem != nil {
				all = append(all, fmt.Errorf("%s, %s: %w", p.who, c.kind(), c.problem))
			}
		}
	}
	return errors.Join(all...)
}
