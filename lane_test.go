package polite_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

type senderKey struct{}

func sender(r *http.Request) string {
	s, _ := r.Context().Value(senderKey{}).(string)
	return s
}

func from(t *testing.T, who string) *http.Request {
	r := request(t, "POST", "http://api.test/messages", "hi")
	return r.WithContext(context.WithValue(r.Context(), senderKey{}, who))
}

func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(answers(200))
		tr := &polite.Transport{
			Base:  p,
			Pacer: &pacer.Pacer{Rate: pacer.Per(10, time.Second), Burst: 2},
			Lanes: []polite.Lane{
				{Pattern: "POST /messages", Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Second), Burst: 1}, Key: sender},
				{Pattern: "GET /reports/{id}", Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Minute), Burst: 1}},
			},
		}
		for _, r := range []*http.Request{
			from(t, "a"), from(t, "b"), // at once, the burst of the account
			from(t, "b"), // 1 s later, by its lane
			request(t, "GET", "http://api.test/else", ""), // no lane: the account has earned its burst again
			request(t, "GET", "http://api.test/reports/1", ""),
			request(t, "GET", "http://api.test/reports/2", ""), // one bucket for all ids
		} {
			_, err := tr.RoundTrip(r)
			require.NoError(t, err)
		}
		assert.Equal(t, []time.Duration{0, 0, time.Second, time.Second, 1100 * time.Millisecond, 61100 * time.Millisecond}, p.at)
	})
}

func TestLaneHostIsOneInAnyCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(answers(200))
		tr := &polite.Transport{Base: p, Lanes: []polite.Lane{
			{Pattern: "api.example.com/", Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Second), Burst: 1}},
		}}
		for _, host := range []string{"api.example.com", "API.Example.COM", "api.example.com:80"} {
			_, err := tr.RoundTrip(request(t, "GET", "http://"+host+"/", ""))
			require.NoError(t, err)
		}
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, p.at)
	})
}

// A wait that the provider tells about one limit holds the lane of that limit
// and nobody else.
func TestAToldWaitHoldsTheLaneThatClaimsIt(t *testing.T) {
	for _, c := range []struct {
		name, limit   string
		b, everything time.Duration // how long b, and a call outside the lane, wait afterwards
	}{
		{"the sender's limit", "sender", 0, 0},
		{"the account's limit", "account", 30 * time.Second, 30 * time.Second},
		{"a limit of no lane", "other", 30 * time.Second, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProvider(func(n int, r *http.Request) (*http.Response, error) {
					if n == 1 {
						return reply(r, 429, "Retry-After", "30", "RateLimit", `"`+c.limit+`";r=0;t=30`), nil
					}
					return reply(r, 200), nil
				})
				tr := &polite.Transport{
					Base:  p,
					Pacer: &pacer.Pacer{},
					Lanes: []polite.Lane{{Pattern: "/messages", Pacer: &pacer.Pacer{}, Key: sender, Limits: []string{"sender"}}},
				}
				took := func(r *http.Request) time.Duration {
					start := time.Now()
					_, err := tr.RoundTrip(r)
					require.NoError(t, err)
					return time.Since(start)
				}
				assert.Zero(t, took(from(t, "a")))
				b := took(from(t, "b"))
				other := took(request(t, "GET", "http://api.test/else", ""))
				a := took(from(t, "a"))
				assert.GreaterOrEqual(t, b, c.b)
				assert.Less(t, b, c.b+4*time.Second)
				if c.b == 0 {
					assert.Zero(t, other)
					assert.GreaterOrEqual(t, a, 30*time.Second)
					assert.Less(t, a, 34*time.Second)
				}
			})
		})
	}
}

func TestCheck(t *testing.T) {
	lane := func(pattern string, p *pacer.Pacer) *polite.Transport {
		return &polite.Transport{Lanes: []polite.Lane{{Pattern: pattern, Pacer: p}}}
	}
	for want, tr := range map[string]*polite.Transport{
		"Lanes[0].Pacer is nil":                   lane("", nil),
		`Lanes[0].Pattern is "/{id}/{id}"`:        lane("/{id}/{id}", &pacer.Pacer{}),
		`Lanes[0].Pattern is "post /messages"`:    lane("post /messages", &pacer.Pacer{}),
		`Lanes[0].Pattern is "A.test/"`:           lane("A.test/", &pacer.Pacer{}),
		`Pattern is "GET a.test:80/x/{y...}"`:     lane("GET a.test:80/x/{y...}", &pacer.Pacer{}),
		`Lanes[0].Pattern is "[::1]:80/"`:         lane("[::1]:80/", &pacer.Pacer{}),
		"Transport.Pacer: pacer: Pacer.TrustRate": {Pacer: &pacer.Pacer{TrustRate: true}},
		"Lanes[0].Pacer.Rate is 10 per 0s":        lane("", &pacer.Pacer{Rate: pacer.Rate{Count: 10}}),
		"Transport.Pacer.Rate is 0 per 1s":        {Pacer: &pacer.Pacer{Rate: pacer.Rate{Per: time.Second}}},
		`Retry.AttemptHeader is "Try: 1\r\nX"`:    {Retry: &retry.Policy{AttemptHeader: "Try: 1\r\nX"}},
		`Retry.DeadlineHeader is "a b"`:           {Retry: &retry.Policy{DeadlineHeader: "a b"}},
		`DeadlineHeader are both "x-try"`:         {Retry: &retry.Policy{AttemptHeader: "x-try", DeadlineHeader: "X-Try"}},
		"Throttle.K is NaN":                       {Throttle: &breaker.Throttle{K: math.NaN()}},
		"Quotas[1] is nil":                        {Quotas: []*quota.Quota{{Name: "a", Limit: 1}, nil}},
		"Quotas[0]: quota":                        {Quotas: []*quota.Quota{{Name: "a", Limit: 1, Period: -77}}},
	} {
		p := newProvider(answers(200))
		tr.Base = p
		require.ErrorContains(t, tr.Check(), want)
		_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
		require.ErrorContains(t, err, want)
		assert.Empty(t, p.at)
	}
	for _, pattern := range []string{"::1/", "[::1]/", "GET a.test/B:c", "/x:1", "GET /x:1/{y}"} {
		assert.NoError(t, lane(pattern, &pacer.Pacer{}).Check(), pattern)
	}
	assert.NoError(t, (&polite.Transport{}).Check())
	assert.NoError(t, polite.NewTransport(nil).Check())
}

// Nine requests left in a minute are nine calls, whatever each costs.
func TestRequestsLeftAreCountedInCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 10
		p := newProvider(func(_ int, r *http.Request) (*http.Response, error) {
			left--
			return reply(r, 200, "X-RateLimit-Limit-Requests", "100", "X-RateLimit-Remaining-Requests", fmt.Sprint(left),
				"X-RateLimit-Reset-Requests", fmt.Sprintf("%ds", 60-int(time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds()))), nil
		})
		tr := &polite.Transport{Base: p, Pacer: &pacer.Pacer{}, Cost: func(*http.Request) int64 { return 500 }}
		for range 9 {
			_, err := tr.RoundTrip(request(t, "GET", "http://api.test/", ""))
			require.NoError(t, err)
		}
		assert.Less(t, p.at[8], 61*time.Second)
		assert.Greater(t, p.at[8], 30*time.Second, "what is left goes out evenly")
	})
}

// What one account is told to wait keeps nobody else from the host.
func TestAnAccountsToldWaitKeepsNoCircuitOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(func(n int, r *http.Request) (*http.Response, error) {
			switch {
			case n == 1:
				return reply(r, 429, "Retry-After", "3000"), nil
			case n <= 6:
				return nil, io.ErrUnexpectedEOF
			}
			return reply(r, 200), nil
		})
		tr := polite.NewTransport(p)
		tr.Retry = nil
		tr.Account = sender
		_, err := tr.RoundTrip(from(t, "a"))
		require.NoError(t, err)
		for range 5 {
			_, err = tr.RoundTrip(from(t, "b"))
			require.Error(t, err)
		}
		time.Sleep(time.Second)
		_, err = tr.RoundTrip(from(t, "b"))
		require.NoError(t, err)
	})
}
