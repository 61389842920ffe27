package retry_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/retry"
)

// fieldsOn returns what each attempt of a call told, its number and the
// milliseconds it has, "-" for nothing.
func fieldsOn(t *testing.T, p *retry.Policy, r *http.Request, answers ...answer) []string {
	t.Helper()
	var told []string
	base := says(answers...)
	_, _ = send(t, roundTrip(func(sent *http.Request) (*http.Response, error) {
		tells := ""
		for i, name := range []string{"Request-Attempt", "Request-Timeout-Ms"} {
			if i > 0 {
				tells += " "
			}
			if v := sent.Header[name]; len(v) > 0 {
				require.Len(t, v, 1)
				tells += v[0]
			} else {
				tells += "-"
			}
		}
		told = append(told, tells)
		return base.RoundTrip(sent)
	}), p, r)
	return told
}

func onTheWire(change func(*retry.Policy)) *retry.Policy {
	p := steady(change)
	p.AttemptHeader, p.DeadlineHeader = retry.AttemptHeader, retry.DeadlineHeader
	return p
}

func TestFieldsOnTheWire(t *testing.T) {
	slow := func(d time.Duration, a answer) answer {
		return func(r *http.Request) (*http.Response, error) {
			time.Sleep(d)
			return a(r)
		}
	}
	busy := slow(100*time.Millisecond, status(503))
	within := func(d time.Duration) func(*testing.T, *http.Request) *http.Request {
		return func(t *testing.T, r *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			t.Cleanup(cancel)
			return r.WithContext(ctx)
		}
	}
	sets := func(name string, values ...string) func(*testing.T, *http.Request) *http.Request {
		return func(_ *testing.T, r *http.Request) *http.Request {
			r.Header[name] = values
			return r
		}
	}
	asIs := func(_ *testing.T, r *http.Request) *http.Request { return r }
	second := func(p *retry.Policy) { p.AttemptTimeout = time.Second }
	for _, c := range []struct {
		name    string
		policy  *retry.Policy
		request func(*testing.T, *http.Request) *http.Request
		answers []answer
		want    []string
	}{
		{"off", steady(second), asIs, []answer{busy, status(200)}, []string{"- -", "- -"}},
		{"no end", onTheWire(nil), asIs, []answer{busy, busy, status(200)}, []string{"1 -", "2 -", "3 -"}},
		{"attempt timeout", onTheWire(second), asIs, []answer{hangs, status(200)}, []string{"1 1000", "2 1000"}},
		{
			"the caller's deadline", onTheWire(nil), within(5 * time.Second),
			[]answer{busy, busy, status(200)},
			[]string{"1 5000", "2 3900", "3 1800"},
		},
		{
			"whichever comes first", onTheWire(func(p *retry.Policy) { p.AttemptTimeout = 2 * time.Second }), within(5 * time.Second),
			[]answer{busy, busy, status(200)},
			[]string{"1 2000", "2 2000", "3 1800"},
		},
		{"part of a millisecond", onTheWire(nil), within(1500 * time.Microsecond), []answer{status(200)}, []string{"1 1"}},
		{"at least one", onTheWire(nil), within(10 * time.Microsecond), []answer{status(200)}, []string{"1 1"}},
		{"set by the caller", onTheWire(second), sets("Request-Attempt", "7"), []answer{busy, status(200)}, []string{"7 1000", "7 1000"}},
		{"set in another case", onTheWire(second), sets("request-attempt", "7"), []answer{status(200)}, []string{"- 1000"}},
		{"kept back by the caller", onTheWire(second), sets("Request-Timeout-Ms"), []answer{status(200)}, []string{"1 -"}},
		{"only the attempt", steady(func(p *retry.Policy) { p.AttemptHeader, p.AttemptTimeout = "request-attempt", time.Second }), asIs, []answer{status(200)}, []string{"1 -"}},
		{"only the deadline", steady(func(p *retry.Policy) { p.DeadlineHeader, p.AttemptTimeout = "request-timeout-ms", time.Second }), asIs, []answer{status(200)}, []string{"- 1000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPut} {
				synctest.Test(t, func(t *testing.T) {
					body := ""
					if method == http.MethodPut {
						body = "text"
					}
					r := c.request(t, call(t, method, body))
					before := r.Header.Clone()
					assert.Equal(t, c.want, fieldsOn(t, c.policy, r, c.answers...), method)
					assert.Equal(t, before, r.Header, "the caller's header")
				})
			}
		})
	}
}

// A request without a header, and a number that a refusal here does not use up.
func TestFieldsOnTheWireOfAnAttemptThatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := call(t, http.MethodGet, "")
		r.Header = nil
		p := onTheWire(func(p *retry.Policy) { p.OutlastOpen = true })
		tries := 0
		sends := sender(func(a *retry.Attempt) (*http.Response, error) {
			if tries++; tries == 2 {
				a.OpenFor, a.Refused = time.Second, true
				return nil, errors.New("open")
			}
			return a.RoundTrip(roundTrip(func(sent *http.Request) (*http.Response, error) {
				want := map[int]string{1: "1", 3: "2"}[tries]
				assert.Equal(t, want, sent.Header.Get("Request-Attempt"))
				return status(map[int]int{1: 503, 3: 200}[tries])(sent)
			}))
		})
		resp, _, err := retry.Do(&retry.Call{Request: r, Policy: p, State: new(retry.State), Sender: sends})
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 3, tries)
		assert.Nil(t, r.Header)
	})
}
