package retry_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/retry"
)

// gate is a Sender that refuses some attempts before it sends the rest.
type gate struct {
	base    http.RoundTripper
	refuses []error
	asked   []time.Duration
	begun   time.Time
	n       []int
}

func (g *gate) Send(a *retry.Attempt) (*http.Response, error) {
	g.asked = append(g.asked, time.Since(g.begun))
	g.n = append(g.n, a.N)
	if len(g.refuses) > 0 {
		err := g.refuses[0]
		g.refuses = g.refuses[1:]
		if err != nil {
			return nil, err
		}
	}
	return a.RoundTrip(g.base)
}

func do(t *testing.T, g *gate, p *retry.Policy, r *http.Request) (*http.Response, bool, error) {
	t.Helper()
	g.begun = time.Now()
	return retry.Do(&retry.Call{Request: r, Policy: p, State: new(retry.State), Sender: g})
}

// closes counts how often a request's body is closed.
func closes(r *http.Request) *tracked {
	b := &tracked{Reader: r.Body}
	r.Body = b
	return b
}

func TestRefusalBeforeAnythingIsReturnedAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{&refusal{}, &open{left: second}, errors.New("no turn")} {
			base := says(status(200))
			r := call(t, "PUT", "payload")
			body := closes(r)
			g := &gate{base: base, refuses: []error{err}}
			resp, never, got := do(t, g, nil, r)
			assert.Nil(t, resp)
			assert.Same(t, err, got)
			assert.True(t, never)
			assert.Zero(t, base.attempts())
			assert.Equal(t, 1, body.closes)
			assert.Zero(t, body.reads)
		}
	})
}

// resilience4j#920: a circuit that opens between attempts ends the call.
func TestRefusalBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		refused := &open{left: second}
		g := &gate{base: says(fails(errReset)), refuses: []error{nil, refused}}
		r := with(call(t, "PUT", "payload"), l.with)
		copies := 0
		inner := r.GetBody
		r.GetBody = func() (io.ReadCloser, error) {
			b, err := inner()
			copies++
			return &counted{b, func() { copies-- }}, err
		}
		resp, never, err := do(t, g, steady(nil), r)
		assert.Nil(t, resp)
		assert.False(t, never)
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.ErrorIs(t, err, refused)
		assert.ErrorIs(t, err, errReset)
		assert.Equal(t, 1, e.Sent)
		assert.Equal(t, []int{1, 2}, g.n)
		assert.Zero(t, copies, "bodies left open")
		require.Len(t, l.gaveUp, 1)
		assert.Equal(t, observe.Refused, l.gaveUp[0].Reason)
	})
}

type counted struct {
	io.ReadCloser
	closed func()
}

func (c *counted) Close() error { c.closed(); return c.ReadCloser.Close() }

func TestOutlastOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		base := says(status(200))
		g := &gate{base: base, refuses: []error{&open{left: 30 * second}, &open{}, &open{}, nil}}
		r := with(call(t, "POST", "payload"), l.with)
		body := closes(r)
		p := steady(func(p *retry.Policy) { p.OutlastOpen, p.MaxAttempts, p.Budget = true, 1, spent() })
		resp, never, err := do(t, g, p, r)
		require.NoError(t, err)
		resp.Body.Close()
		assert.False(t, never)
		assert.Equal(t, []string{"payload"}, base.bodies, "the caller's own body, unread until then")
		assert.Equal(t, 1, body.closes)
		assert.Equal(t, []int{1, 1, 1, 1}, g.n)
		require.Len(t, g.asked, 4)
		waits := []time.Duration{g.asked[1], g.asked[2] - g.asked[1], g.asked[3] - g.asked[2]}
		assert.InDelta(t, 31.5, waits[0].Seconds(), 1.5)
		assert.InDelta(t, 1.5, waits[1].Seconds(), 0.5, "a circuit that opens at once is not spun on")
		assert.InDelta(t, 3, waits[2].Seconds(), 1)
		for _, e := range l.retried {
			assert.Equal(t, observe.Open, e.Reason)
		}
		assert.Len(t, l.sent, 1)
	})
}

func TestOutlastOpenWithinTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := &open{left: 30 * second}
		for _, change := range []func(*retry.Policy){
			func(p *retry.Policy) { p.MaxRetryAfter = 29 * second },
			func(p *retry.Policy) { p.MaxElapsed = 30 * second },
		} {
			p := steady(func(p *retry.Policy) { p.OutlastOpen = true; change(p) })
			g := &gate{base: says(status(200)), refuses: []error{left, left, left}}
			_, never, err := do(t, g, p, call(t, "GET", ""))
			assert.Same(t, left, err)
			assert.True(t, never)
			assert.Equal(t, []time.Duration{0}, g.asked)
		}
	})
}

// A client in a client: the inner one's circuit refuses.
func TestOutlastOpenBehindTheBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := steady(func(p *retry.Policy) { p.OutlastOpen = true })
		inner := &open{left: 5 * second}
		base := says(fails(inner), status(200))
		resp, err := send(t, base, p, call(t, "POST", "payload"))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, []string{"payload", "payload"}, base.bodies)
		assert.GreaterOrEqual(t, base.at[1], 5*second)

		r := call(t, "POST", "payload")
		r.GetBody = nil
		_, err = send(t, says(fails(inner)), p, r)
		require.ErrorIs(t, err, inner)
	})
}

func TestNeverProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name    string
			answers []answer
			want    bool
		}{
			{"refused connections", []answer{fails(errRefused)}, true},
			{"one reset", []answer{fails(errRefused), fails(errReset), fails(errRefused)}, false},
			{"a response before", []answer{status(503), fails(errRefused)}, false},
			{"success", []answer{status(200)}, false},
			{"429", []answer{status(429)}, false},
		} {
			resp, never, err := do(t, &gate{base: says(c.answers...)}, steady(nil), call(t, "DELETE", ""))
			assert.True(t, (resp == nil) != (err == nil))
			assert.Equal(t, c.want, never, c.name)
		}
	})
}

// A Call and what hangs on it may be used again.
func TestCallIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &retry.Call{Policy: steady(func(p *retry.Policy) { p.Budget = retry.NoBudget }), State: new(retry.State)}
		for range 5 {
			base := says(status(503), fails(errReset), status(200))
			c.Request, c.Sender = call(t, "PUT", "payload"), &gate{base: base}
			resp, _, err := retry.Do(c)
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, []time.Duration{0, second, 3 * second}, base.at)
			assert.Equal(t, []string{"payload", "payload", "payload"}, base.bodies)

			c.Request, c.Sender = call(t, "DELETE", ""), &gate{base: says(fails(errRefused))}
			_, never, err := retry.Do(c)
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Len(t, e.Tries, 4)
			assert.True(t, never)
			assert.Zero(t, e.Status)
		}
	})
}

// spent is a budget without a token for any call of these tests.
func spent() *retry.Budget {
	b := new(retry.Budget)
	for b.Take("http://api.example.com:80", time.Now()) {
	}
	return b
}

// Nothing of one call reaches the next, not of one that went well either.
func TestCallForgetsTheFormer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &retry.Call{State: new(retry.State)}
		c.Policy = steady(func(p *retry.Policy) { p.Budget = spent() })
		c.Request, c.Sender = call(t, "GET", ""), parsing{says(status(200))}
		_, _, err := retry.Do(c)
		require.NoError(t, err)

		c.Policy = steady(func(p *retry.Policy) { p.Budget = retry.NoBudget })
		base := says(status(503), status(200))
		c.Request, c.Sender = call(t, "GET", ""), &gate{base: base}
		resp, _, err := retry.Do(c)
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode, "no budget, not the former's")
		assert.Equal(t, []time.Duration{0, second}, base.at, "not told to wait by the former answer")
	})
}

// parsing is a Sender that has read the answer itself.
type parsing struct{ base http.RoundTripper }

func (s parsing) Send(a *retry.Attempt) (*http.Response, error) {
	resp, err := a.RoundTrip(s.base)
	a.Signal.Told, a.Signal.Wait, a.Parsed = true, time.Minute, true
	return resp, err
}

func TestSignalOfTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := says(status(503, "Retry-After", "2"), status(200))
		_, _, err := retry.Do(&retry.Call{Request: call(t, "GET", ""), Sender: parsing{base}})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, base.at[1], time.Minute)
	})
}

func TestHeaderInPlaceOfTheRequests(t *testing.T) {
	for _, p := range []*retry.Policy{nil, {AttemptTimeout: time.Hour}} {
		r := call(t, "POST", "payload")
		base := says(status(200))
		c := &retry.Call{Request: r, Policy: p, Header: http.Header{"Idempotency-Key": {"ours"}}, Sender: &gate{base: base}}
		resp, _, err := retry.Do(c)
		require.NoError(t, err)
		assert.Equal(t, []string{"ours"}, base.keys)
		assert.Empty(t, r.Header)
		assert.Same(t, r, resp.Request)
	}
}

func TestAttemptIsSentOnce(t *testing.T) {
	base := says(status(200))
	c := &retry.Call{Request: call(t, "GET", ""), Policy: &retry.Policy{MaxAttempts: 1}, Sender: twice{base}}
	_, _, err := retry.Do(c)
	require.ErrorContains(t, err, "an Attempt is sent once")
	assert.Equal(t, 1, base.attempts())
}

type twice struct{ base http.RoundTripper }

func (s twice) Send(a *retry.Attempt) (*http.Response, error) {
	if resp, err := a.RoundTrip(s.base); err == nil {
		resp.Body.Close()
	}
	return a.RoundTrip(s.base)
}
