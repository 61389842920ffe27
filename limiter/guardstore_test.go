package limiter

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// storeFunc is a Store that decides as it likes.
type storeFunc func(context.Context, ...Charge) (Decision, error)

func (f storeFunc) Take(ctx context.Context, c ...Charge) (Decision, error) { return f(ctx, c...) }
func (f storeFunc) Refund(context.Context, ...Charge) error                 { return nil }

func TestGuardStoreFails(t *testing.T) {
	down := errors.New("down")
	var degradedEvents int
	run := func(store Store, policy FailurePolicy) *httptest.ResponseRecorder {
		l := window("w", 5)
		l.OnFailure = policy
		return ask((&Guard{
			Store: store, Contact: "ops", Degrade: http.NotFoundHandler(),
			Hooks: &Hooks{Degraded: func(e Event) { degradedEvents++; assert.Equal(t, down, e.Decision.Degraded) }},
			Rules: []Rule{{Key: Global, Limits: []*Limit{window("x", 5), l}}},
		}).Handler(ok200), "GET", "/")
	}
	fails := storeFunc(func(context.Context, ...Charge) (Decision, error) { return Decision{}, down })
	for _, policy := range []FailurePolicy{Open, Local} {
		w := run(fails, policy)
		assert.Equal(t, 200, w.Code)
		assert.NotContains(t, w.Header(), fieldState)
		assert.NotContains(t, w.Header(), fieldPolicy)
	}
	answers := storeFunc(func(_ context.Context, c ...Charge) (Decision, error) {
		d := Decision{By: c[1].Limit, Degraded: down, RetryAfter: 1500 * time.Millisecond}
		return d, nil
	})
	for _, w := range []*httptest.ResponseRecorder{run(fails, Closed), run(answers, Closed)} {
		assert.Equal(t, 503, w.Code)
		assert.NotContains(t, w.Header(), fieldState)
		assert.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"))
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		var body map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		assert.Equal(t, "Service Unavailable", body["title"])
		assert.Equal(t, "ops", body["contact"])
	}
	assert.Equal(t, 4, degradedEvents)

	local := storeFunc(func(_ context.Context, c ...Charge) (Decision, error) {
		return Decision{Allowed: true, By: c[0].Limit, Remaining: 3, Degraded: down}, nil
	})
	w := run(local, Local)
	assert.Equal(t, 200, w.Code)
	assert.NotContains(t, w.Header(), fieldState)
}

// A store that knows nothing of Local leaves it to the Guard, which counts for
// itself: the limit is no larger while the store is down.
func TestGuardDecidesLocally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strict, lax := made(FixedWindow("strict", 3, time.Hour, ToFirst)), window("lax", 1)
		strict.OnFailure = Local
		down := storeFunc(func(context.Context, ...Charge) (Decision, error) { return Decision{}, errors.New("down") })
		h := (&Guard{Store: down, Rules: []Rule{{Key: byHeader("User"), Limits: []*Limit{lax, strict}}}}).Handler(ok200)
		for range 3 {
			assert.Equal(t, 200, ask(h, "GET", "/", "User", "ann").Code)
		}
		w := ask(h, "GET", "/", "User", "ann")
		assert.Equal(t, 429, w.Code)
		assert.Equal(t, "3600", w.Header().Get("Retry-After"))
		assert.NotContains(t, w.Header(), fieldState, "what is left in the store is not known")
		assert.Contains(t, w.Body.String(), `"violated-policies":["strict"]`)
		assert.Equal(t, 200, ask(h, "GET", "/", "User", "bob").Code)
		time.Sleep(time.Hour)
		assert.Equal(t, 200, ask(h, "GET", "/", "User", "ann").Code)
	})
}

// Who hangs up while the store is asked does not get by uncharged.
func TestGuardHangsUpWhileAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	store := storeFunc(func(ctx context.Context, c ...Charge) (Decision, error) {
		cancel()
		return Decision{}, ctx.Err()
	})
	h := (&Guard{Store: store, Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 1)}}}}).
		Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/login", nil).WithContext(ctx))
	assert.Equal(t, 503, w.Code)
}

func TestGuardPanicsPassThrough(t *testing.T) {
	store := &Memory{}
	first := window("first", 5)
	boom := false
	h := (&Guard{Store: store, Rules: []Rule{
		{Key: Global, Limits: []*Limit{first}},
		{Pattern: "/key", Limits: []*Limit{window("k", 5)}, Key: func(*http.Request) string { panic("boom") }},
		{Pattern: "/cost", Limits: []*Limit{window("c", 5)}, Key: Global, Cost: func(*http.Request) int64 { panic("boom") }},
		{Pattern: "/exempt", Limits: []*Limit{window("e", 5)}, Key: Global, Exempt: func(*http.Request) bool { panic("boom") }},
		{Pattern: "/tier", Key: Global, Tier: func(*http.Request) []*Limit { panic("boom") }},
	}}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if boom {
			panic("boom")
		}
	}))
	left := func() int64 {
		d, err := store.Take(context.Background(), first.Charge("global", 0))
		require.NoError(t, err)
		return d.Remaining
	}
	for _, path := range []string{"/key", "/cost", "/exempt", "/tier"} {
		assert.PanicsWithValue(t, "boom", func() { ask(h, "GET", path) })
		assert.EqualValues(t, 5, left(), "nothing was charged yet")
	}
	boom = true
	assert.PanicsWithValue(t, "boom", func() { ask(h, "GET", "/") })
	assert.EqualValues(t, 4, left(), "what ran was charged")
	boom = false
	assert.Equal(t, 200, ask(h, "GET", "/").Code)
}

// A Guard's handlers share its store, and two Guards without one do not.
func TestGuardHandlersShare(t *testing.T) {
	l := window("w", 1)
	g := &Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{l}}}}
	a, b := g.Handler(ok200), g.Handler(ok200)
	assert.Equal(t, 200, ask(a, "GET", "/").Code)
	assert.Equal(t, 429, ask(b, "GET", "/").Code)
	other := &Guard{Rules: g.Rules}
	assert.Equal(t, 200, ask(other.Handler(ok200), "GET", "/").Code)
}

// An inner handler gets the very ResponseWriter that came in.
func TestGuardDoesNotWrap(t *testing.T) {
	w := httptest.NewRecorder()
	h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 1)}}}}).
		Handler(http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) { assert.Same(t, w, inner) }))
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
}
