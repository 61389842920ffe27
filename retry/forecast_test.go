package retry_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/retry"
)

// queue is a Sender that expects to let nobody go for a while, and notes what it
// is asked and told.
type queue struct {
	base  http.RoundTripper
	opens time.Time
	asked []time.Duration // the instants, from begun on
	until []time.Duration
	begun time.Time
}

func (q *queue) Send(a *retry.Attempt) (*http.Response, error) {
	if u := a.Until(); u.IsZero() {
		q.until = append(q.until, 0)
	} else {
		q.until = append(q.until, u.Sub(q.begun))
	}
	return a.RoundTrip(q.base)
}

func (q *queue) Forecast(at time.Time) time.Time {
	q.asked = append(q.asked, at.Sub(q.begun))
	return q.opens
}

func TestForecast(t *testing.T) {
	for _, c := range []struct {
		name                 string
		opens                time.Duration // zero: not known
		deadline, maxElapsed time.Duration
		again                bool
	}{
		{"no bound", time.Hour, 0, 0, true},
		{"within the deadline", 9 * second, 10 * second, 0, true},
		{"at the deadline", 10 * second, 10 * second, 0, false},
		{"past it", time.Hour, 10 * second, 0, false},
		{"not known", 0, 10 * second, 0, true},
		{"within MaxElapsed", 9 * second, 0, 10 * second, true},
		{"past it as well", 10 * second, 0, 10 * second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				ctx := l.with(t.Context())
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				begun := time.Now()
				q := &queue{base: says(text(503, "why", "Retry-After", "2"), status(200)), begun: begun}
				if c.opens > 0 {
					q.opens = begun.Add(c.opens)
				}
				budget := new(retry.Budget)
				resp, _, err := retry.Do(&retry.Call{
					Request: call(t, "GET", "").WithContext(ctx), State: new(retry.State), Sender: q,
					Policy: steady(func(p *retry.Policy) {
						p.MaxElapsed, p.Budget, p.Key = c.maxElapsed, budget, func(*http.Request) string { return "k" }
					}),
				})
				require.NoError(t, err)
				if c.again {
					assert.Equal(t, 200, resp.StatusCode)
					assert.Equal(t, []time.Duration{0, c.maxElapsed}, q.until)
				} else {
					assert.Equal(t, 503, resp.StatusCode)
					assert.Equal(t, begun, time.Now(), "at once")
					body := make([]byte, 3)
					n, _ := resp.Body.Read(body)
					assert.Equal(t, "why", string(body[:n]), "intact")
					require.Len(t, l.gaveUp, 1)
					assert.Equal(t, observe.Deadline, l.gaveUp[0].Reason)
					assert.InDelta(t, 10, budget.Level("k", time.Now()), 1e-6)
				}
				if c.deadline+c.maxElapsed == 0 {
					assert.Empty(t, q.asked, "nobody needs to know")
				} else {
					require.Len(t, q.asked, 1)
					assert.InDelta(t, 2.1, q.asked[0].Seconds(), 0.1)
				}
			})
		})
	}
}
