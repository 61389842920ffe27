package limiter

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is told of a sliding window that does not refuse is as true on a refusal
// by another limit as elsewhere.
func TestRefusalTellsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{
			made(SlidingLog("log", 10, 10*time.Second)), made(FixedWindow("hour", 2, time.Hour, ToFirst)),
		}}}}).Handler(ok200)
		for range 2 {
			ask(h, "GET", "/")
			time.Sleep(3 * time.Second)
		}
		w := ask(h, "GET", "/")
		assert.Equal(t, 429, w.Code)
		assert.Equal(t, `"log";r=8;t=4, "hour";r=0;t=3594`, w.Header().Get("RateLimit"))
	})
}

// What a constructor returned with an error, or what none made, is no limit.
func TestTierWithoutLimits(t *testing.T) {
	fine := window("w", 5)
	for _, limits := range [][]*Limit{nil, {nil}, {{}}, {fine, {}}} {
		h := (&Guard{Rules: []Rule{{Key: Global, Tier: func(*http.Request) []*Limit { return limits }}}}).Handler(ok200)
		w := httptest.NewRecorder()
		w.Header().Set("Etag", `"x"`)
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		assert.Equal(t, 403, w.Code)
		assert.NotContains(t, w.Header(), "Etag", "the refusal is no representation")
	}
	h := (&Guard{Rules: []Rule{{Key: Global, Tier: func(*http.Request) []*Limit { return []*Limit{nil, fine} }}}}).Handler(ok200)
	assert.Equal(t, 200, ask(h, "GET", "/").Code)
}

// Fields about caching go from every refusal, also where the Guard sets no
// others before.
func TestRefusalIsNoRepresentation(t *testing.T) {
	closed := window("w", 1)
	closed.OnFailure = Closed
	down := storeFunc(func(context.Context, ...Charge) (Decision, error) { return Decision{}, errors.New("down") })
	for status, g := range map[int]*Guard{
		503: {Store: down, Rules: []Rule{{Key: Global, Limits: []*Limit{closed}}}},
		429: {Rules: []Rule{{Key: Global, Limits: []*Limit{closed}, Cost: func(*http.Request) int64 { return 2 }}}},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Expires", "Wed, 21 Oct 2044 07:28:00 GMT")
		g.Handler(ok200).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		assert.Equal(t, status, w.Code)
		assert.NotContains(t, w.Header(), "Expires")
	}
}

// ServeMux takes white space of both kinds after a method.
func TestPatternWithTab(t *testing.T) {
	for _, pattern := range []string{"GET\t/x", "GET\t /x", "GET \t/x"} {
		m, err := newMatcher(pattern)
		require.NoError(t, err, "%q", pattern)
		assert.True(t, m.matches(httptest.NewRequest("GET", "/x", nil)), "%q", pattern)
		assert.False(t, m.matches(httptest.NewRequest("POST", "/x", nil)), "%q", pattern)
	}
}

// Many may read the limits at once.
func TestPoliciesTogether(t *testing.T) {
	h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 5)}}}}).Policies()
	want := ask(h, "GET", "/").Body.String()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { assert.Equal(t, want, ask(h, "GET", "/").Body.String()) })
	}
	wait.Wait()
}

// Limits of which one replaces the other share what is in use, and each holds.
func TestStackOfReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{}
		old := made(FixedWindow("old", 10, time.Hour, ToFirst))
		tight := made(FixedWindow("tight", 3, time.Hour, ToFirst)).Replacing(old)
		wide := made(FixedWindow("wide", 100, time.Hour, ToFirst)).Replacing(old)
		for _, pair := range [][2]*Limit{{old, tight}, {tight, old}, {wide, tight}} {
			key := pair[0].Name() + pair[1].Name()
			for i := range 20 {
				d, err := m.Take(t.Context(), pair[0].Charge(key, 1), pair[1].Charge(key, 1))
				require.NoError(t, err)
				assert.Equal(t, i == 0, d.Allowed, "two units each, of three")
				assert.Equal(t, "tight", d.By.Name())
			}
		}
	})
}

// What could never name anybody is refused where it is written down.
func TestKeysThatNameNobody(t *testing.T) {
	for _, make := range []func(){
		func() { FirstOf() },
		func() { FirstOf(Global, nil) },
		func() { ByHeader("") },
		func() { ByHeader("host") },
		func() { ByAPIKey("X Api Key") },
		func() { ByAPIKey("Schlüssel") },
	} {
		assert.Panics(t, make)
	}
	assert.NotPanics(t, func() { FirstOf(ByHeader("x-user"), ByAPIKey("X_Api.Key~1")) })
	empty := &Guard{Partition: []byte{}, Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 1)}}}}
	assert.ErrorContains(t, empty.Check(), "limiter: Guard.Partition has 0 bytes")
}
