package limiter

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A Monitor behind a real Guard: a stack, a rule on trial, and a queue in which
// a request would have waited too long.
func TestMonitorOfGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Monitor{}
		m.Memory = &Memory{}
		g := &Guard{
			Store: m.Memory,
			Hooks: m.Hooks(),
			Rules: []Rule{
				{Key: ByAddress(nil), Limits: []*Limit{monitored(FixedWindow("per-address", 5, time.Minute, ToClock))}},
				{Key: Global, Limits: []*Limit{monitored(FixedWindow("all", 100, time.Minute, ToClock))}},
				{Key: Global, Limits: []*Limit{monitored(FixedWindow("trial", 3, time.Minute, ToClock))}, DryRun: true},
				{
					Pattern: "/slow", Key: Global, Cost: func(*http.Request) int64 { return 2 },
					Limits: []*Limit{monitored(LeakyQueue("queue", Per(1, 9*time.Second), 3))},
				},
			},
		}
		h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		status := map[int]int{}
		ask := func(path, peer string) {
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr = peer
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			status[w.Code]++
		}
		for range 8 {
			ask("/", "203.0.113.7:1")
		}
		ask("/slow", "203.0.113.8:1") // 18 seconds' wait are over MaxDelay, and always will be
		assert.Equal(t, map[int]int{200: 5, 429: 4}, status)

		got := lookAt(t, m)
		requests, trial := got["requests"].(map[string]any), got["dry_run"].(map[string]any)
		assert.EqualValues(t, 5, requests["admitted"])
		assert.EqualValues(t, 4, requests["refused"])
		assert.EqualValues(t, 1, requests["near_limit"], "the fifth of five; with the fourth a fifth is left")
		assert.EqualValues(t, 3, trial["admitted"])
		assert.EqualValues(t, 2, trial["refused"])
		units := map[string]string{}
		for _, l := range got["limits"].([]any) {
			l := l.(map[string]any)
			units[l["name"].(string)] = fmt.Sprint(l["admitted_units"], " ", l["refused_units"])
		}
		assert.Equal(t, map[string]string{"per-address": "5 3", "all": "5 0", "trial": "3 2", "queue": "0 0"}, units)
		top := got["top_refused"].(map[string]any)["keys"].([]any)
		assert.Equal(t, map[string]any{"key": "address|203.0.113.7", "limit": "per-address", "dry_run": false, "refused": 3.0, "error": 0.0}, top[0])
		assert.Positive(t, got["store"].(map[string]any)["keys"])
	})
}

// Whoever makes up a new identity for each request, in a header that nobody
// checked, is limited all the same, and fills no memory (HealthClawGuardrails#339).
func TestMadeUpIdentities(t *testing.T) {
	store := &Memory{}
	tenants := map[string]bool{"acme": true} // those who are known
	rule := Rule{
		Key: ByTenant(func(r *http.Request) string {
			if t := r.Header.Get("X-Tenant-Id"); tenants[t] {
				return t
			}
			return ""
		}),
		Limits: []*Limit{monitored(FixedWindow("per-tenant", 10, time.Hour, ToFirst))},
	}
	g := &Guard{Store: store, Rules: []Rule{rule}}
	h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	admitted := 0
	for i := range 150 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, keyRequest("203.0.113.7:1", "X-Tenant-Id", fmt.Sprint("made up ", i)))
		if w.Code == 200 {
			admitted++
		}
	}
	assert.Equal(t, 10, admitted)
	assert.Equal(t, 1, store.Stats().Keys)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, keyRequest("203.0.113.7:1", "X-Tenant-Id", "acme"))
	assert.Equal(t, 200, w.Code, "a genuine one has units of its own")
}

// A Monitor hears of requests that share an entry since the store is full, with
// the charge that does.
func TestMonitorOfOverflow(t *testing.T) {
	memory := &Memory{MaxKeys: 2}
	m := &Monitor{Memory: memory}
	var keys []string
	g := &Guard{
		Store: memory,
		Hooks: m.Hooks().Both(&Hooks{Overflowed: func(e Event) { keys = append(keys, e.Limit.Name()+" "+e.Key) }}),
		Rules: []Rule{
			{Key: Global, Limits: []*Limit{monitored(FixedWindow("all", 100, time.Hour, ToClock))}},
			{Key: ByHeader("User"), Limits: []*Limit{monitored(FixedWindow("user", 5, time.Hour, ToClock))}},
		},
	}
	h := g.Handler(ok200)
	for _, user := range []string{"ann", "bob", "ann", "eve"} {
		assert.Equal(t, 200, ask(h, "GET", "/", "User", user).Code)
	}
	key := func(user string) string {
		return "user " + ByHeader("User")(&http.Request{Header: http.Header{"User": {user}}})
	}
	assert.Equal(t, []string{key("bob"), key("eve")}, keys)
	assert.EqualValues(t, 2, lookAt(t, m)["requests"].(map[string]any)["overflowed"])
}
