package polite_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
)

// Reports about retry budgets, and about retries and the pace.

// burn makes failing calls until the budget of api is spent.
func burn(t *testing.T, tr *polite.Transport, p *provider) {
	t.Helper()
	answer := p.answer
	p.answer = answers(503)
	for range 20 {
		require.Equal(t, 503, status(t, tr))
	}
	before := len(p.at)
	require.Equal(t, 503, status(t, tr))
	require.Equal(t, 1, len(p.at)-before, "the budget is not spent")
	p.answer = answer
}

func idleMayRetry(t *testing.T) {
	p := newProvider(nil)
	p.answer = func(n int, r *http.Request) (*http.Response, error) {
		if n%2 == 1 {
			return nil, dialError()
		}
		return reply(r, 200), nil
	}
	tr := polite.NewTransport(p)
	for range 24 { // the first try of every call fails, once an hour
		require.Equal(t, 200, status(t, tr))
		time.Sleep(time.Hour)
	}

	p = newProvider(answers(503, 200))
	tr = tries(p, atOnce)
	burn(t, tr, p)
	time.Sleep(10 * time.Second)
	p.answer = answers(503)
	before := len(p.at)
	status(t, tr)
	assert.Equal(t, 2, len(p.at)-before, "a retry in ten seconds is left")
	status(t, tr)
	assert.Equal(t, 3, len(p.at)-before, "and no more")
}

func budgetPerHost(t *testing.T) {
	p := newProvider(answers(503))
	tr := tries(p, atOnce)
	burn(t, tr, p)
	before := len(p.at)
	resp, err := do(t, tr, request(t, "GET", "http://other.test/", ""))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 4, len(p.at)-before, "another host pays")
	status(t, tr)
	assert.Equal(t, 5, len(p.at)-before)
}

func allFailAtOnce(t *testing.T) {
	retries := func(successes int) int {
		var failing atomic.Bool
		var failed atomic.Int64
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			if !failing.Load() {
				return reply(r, 200), nil
			}
			failed.Add(1)
			time.Sleep(100 * time.Millisecond)
			return reply(r, 503), nil
		})
		tr := tries(base, func(p *retry.Policy) { p.MaxAttempts = 2 })
		for range successes {
			require.Equal(t, 200, status(t, tr))
			time.Sleep(time.Second / 1000)
		}
		failing.Store(true)
		const n = 200
		var all sync.WaitGroup
		for range n {
			r := request(t, "GET", api, "")
			all.Go(func() {
				if resp, err := tr.RoundTrip(r); err == nil {
					resp.Body.Close()
				}
			})
		}
		all.Wait()
		return int(failed.Load()) - n
	}
	// All calls there are turn into retries, and still there is what was earned.
	assert.Equal(t, 10, retries(0), "what a budget starts with")
	assert.InDelta(t, 100, retries(2000), 20, "a tenth of the last second's calls")
}

func floorOfRetries(t *testing.T) {
	p := newProvider(nil)
	p.answer = func(n int, r *http.Request) (*http.Response, error) {
		return reply(r, []int{503, 200}[(n-1)%2]), nil
	}
	tr := tries(p, atOnce)
	for range 100 { // every first try fails, once in ten seconds
		require.Equal(t, 200, status(t, tr))
		time.Sleep(10 * time.Second)
	}

	// Calls in flight are no retries, so they use up nothing of the floor.
	release, n := make(chan struct{}), 0
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/long" {
			<-release
			return reply(r, 200), nil
		}
		n++
		return reply(r, []int{503, 200}[n-1]), nil
	})
	tr = tries(base, atOnce)
	var all sync.WaitGroup
	for range 50 {
		r := request(t, "GET", "http://api.test/long", "")
		all.Go(func() {
			resp, err := tr.RoundTrip(r)
			if assert.NoError(t, err) {
				resp.Body.Close()
			}
		})
	}
	synctest.Wait()
	assert.Equal(t, 200, status(t, tr))
	assert.Equal(t, 2, n)
	close(release)
	all.Wait()
}

func worstCase(t *testing.T) {
	p := newProvider(answers(200))
	tr := tries(p, atOnce)
	for range 24 * 360 { // a day of success
		require.Equal(t, 200, status(t, tr))
		time.Sleep(10 * time.Second)
	}
	p.answer = answers(503)
	before := len(p.at)
	for range 3600 { // an hour's outage
		require.Equal(t, 503, status(t, tr))
		time.Sleep(time.Second)
	}
	retries := len(p.at) - before - 3600
	assert.InDelta(t, 10+360, retries, 1, "what a budget holds at most, and one in ten seconds")
	assert.LessOrEqual(t, float64(3600+retries)/3600, 1.105, "the package comment of retry says 1.1")

	// What the same comment says of settings without a budget.
	all := func(p *retry.Policy) { p.Base, p.Budget = -1, retry.NoBudget }
	p = newProvider(answers(503))
	for range 100 {
		status(t, tries(p, all))
	}
	assert.Len(t, p.at, 100*4)
	p = newProvider(answers(503))
	for range 100 {
		status(t, tries(tries(p, all), all))
	}
	assert.Len(t, p.at, 100*4*4)
}

func successRefills(t *testing.T) {
	p := newProvider(answers(200))
	tr := tries(p, atOnce)
	burn(t, tr, p)
	for range 30 {
		require.Equal(t, 200, status(t, tr))
	}
	p.answer = answers(503)
	before := len(p.at)
	for range 10 {
		status(t, tr)
	}
	assert.Equal(t, 10+3, len(p.at)-before, "thirty successes pay for three retries")
}

func spentBudgetKeepsAnswer(t *testing.T) {
	p := newProvider(answers(503))
	tr := tries(p, atOnce)
	burn(t, tr, p)
	h := listen(tr)
	b := newBody("as it was")
	p.answer = func(_ int, r *http.Request) (*http.Response, error) {
		resp := reply(r, 503)
		resp.Body = b
		return resp, nil
	}
	resp, err := get(t, tr)
	require.NoError(t, err)
	assert.Equal(t, []observe.Reason{observe.Budget}, h.why())
	assert.Zero(t, b.reads.Load())
	assert.Equal(t, "as it was", read(t, resp))
	p.answer = fails(errors.New("reset"))
	_, err = get(t, tr)
	require.ErrorContains(t, err, "reset")
}

// The three that wait for what is told: retry, pacer, breaker.
func noNegativeWait(t *testing.T) {
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		value string
		long  bool
	}{{"31622400", true}, {"9223372037", false}, {past, false}, {"-1", false}} {
		s := parse("Retry-After", c.value)
		assert.GreaterOrEqual(t, s.Wait, time.Duration(0), c.value)
		assert.Equal(t, c.long, s.Wait > 0, c.value)

		p := newProvider(inTurn(says(503, "Retry-After", c.value), says(200)))
		tr := tries(p)
		h := listen(tr)
		got := status(t, tr)
		if c.long {
			assert.Equal(t, 503, got)
			assert.Equal(t, []observe.Reason{observe.TooLong}, h.why())
		} else {
			assert.Equal(t, 200, got, c.value)
			assert.Equal(t, seconds(0, 1), p.at, c.value)
		}

		p = newProvider(inTurn(says(503, "Retry-After", c.value), says(200)))
		tr = &polite.Transport{Base: p, Pacer: &pacer.Pacer{}}
		require.Equal(t, 503, status(t, tr))
		_, err := get(t, tr)
		var wait *pacer.WaitError
		if c.long {
			require.ErrorAs(t, err, &wait)
			assert.GreaterOrEqual(t, wait.Wait, time.Hour)
		} else {
			require.NoError(t, err, c.value)
			assert.LessOrEqual(t, p.at[1], 2*time.Second, c.value)
		}

		b := &breaker.Breaker{Failures: 1, OpenFor: time.Second}
		tr, _ = guarded(newProvider(inTurn(fails(dialError()), says(429, "Retry-After", c.value))), b)
		status(t, tr)
		time.Sleep(time.Second)
		require.Equal(t, 429, status(t, tr))
		left := refusedFor(t, tr)
		if c.long { // told for ever is an hour, and then one call tries
			requireTold(t, time.Hour, left)
		} else {
			assert.LessOrEqual(t, left, time.Second, c.value)
		}
	}
}

func retriesArePaced(t *testing.T) {
	p := newProvider(answers(429, 503, 200))
	tr := tries(p)
	tr.Pacer = &pacer.Pacer{Rate: pacer.Per(1, 10*time.Second), Burst: 1}
	require.Equal(t, 200, status(t, tr))
	assert.Equal(t, seconds(0, 10, 20), p.at)

	// Fast refusals neither end a run of failures nor close a circuit.
	p = newProvider(inTurn(fails(dialError()), says(429), says(429), fails(dialError()), says(429), says(200)))
	tr, changes := guarded(p, &breaker.Breaker{Failures: 2, OpenFor: time.Second})
	for range 4 {
		status(t, tr)
	}
	require.Equal(t, []string{"closed>open"}, changes())
	time.Sleep(time.Second)
	require.Equal(t, 429, status(t, tr))
	require.Equal(t, []string{"closed>open", "open>half-open", "half-open>open"}, changes())
	time.Sleep(time.Second)
	require.Equal(t, 200, status(t, tr))
	require.Equal(t, []string{"closed>open", "open>half-open", "half-open>open", "open>half-open", "half-open>closed"}, changes())
}
