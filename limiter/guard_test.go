package limiter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// made is a limit from a constructor's results.
func made(l *Limit, err error) *Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// window is a limit of so many a minute, from the first request.
func window(name string, quota int64) *Limit {
	return made(FixedWindow(name, quota, time.Minute, ToFirst))
}

func byHeader(name string) func(*http.Request) string {
	return func(r *http.Request) string { return r.Header.Get(name) }
}

var ok200 = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("hello")) })

// ask sends a request to h; headers are in pairs.
func ask(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// statuses asks n times.
func statuses(n int, h http.Handler, method, target string, headers ...string) []int {
	var all []int
	for range n {
		all = append(all, ask(h, method, target, headers...).Code)
	}
	return all
}

func TestGuardChargesEveryMatchingRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user, tenant, global := window("user", 2), window("tenant", 3), window("global", 100)
		store := &Memory{}
		h := (&Guard{Store: store, Rules: []Rule{
			{Key: byHeader("User"), Limits: []*Limit{user}},
			{Key: byHeader("Tenant"), Limits: []*Limit{tenant}},
			{Pattern: "GET /", Key: Global, Limits: []*Limit{global}},
		}}).Handler(ok200)

		assert.Equal(t, []int{200, 200, 429, 429}, statuses(4, h, "GET", "/", "User", "ann", "Tenant", "acme"))
		// Her refusals cost the tenant nothing (envoyproxy/ratelimit#1060).
		assert.Equal(t, []int{200, 429}, statuses(2, h, "GET", "/", "User", "ben", "Tenant", "acme"))
		assert.Equal(t, []int{200}, statuses(1, h, "GET", "/", "User", "ben", "Tenant", "other"))

		d, err := store.Take(context.Background(), global.Charge("global", 0))
		require.NoError(t, err)
		assert.EqualValues(t, 96, d.Remaining, "four were admitted")

		w := ask(h, "GET", "/", "User", "cat", "Tenant", "acme")
		assert.Equal(t, 429, w.Code)
		assert.Contains(t, w.Body.String(), `"violated-policies":["tenant"]`, "the answer names it (envoy#43113)")
	})
}

func TestGuardPatterns(t *testing.T) {
	h := (&Guard{Rules: []Rule{
		{Pattern: "POST /login", Key: Global, Limits: []*Limit{window("logins", 1)}},
		{Pattern: "GET /users/{id}", Key: Global, Limits: []*Limit{window("users", 3)}},
	}}).Handler(ok200)
	assert.Equal(t, []int{200, 429}, statuses(2, h, "POST", "/login"))
	assert.Equal(t, []int{429, 429}, append(statuses(1, h, "POST", "//login"), statuses(1, h, "POST", "/x/../login")...))
	assert.Equal(t, []int{200, 200}, statuses(2, h, "GET", "/login"))
	// A path parameter makes no new bucket (steemit/wallet#319).
	assert.Equal(t, 200, ask(h, "GET", "/users/1").Code)
	assert.Equal(t, 200, ask(h, "GET", "/users/2").Code)
	assert.Equal(t, 200, ask(h, "HEAD", "/users/3").Code)
	assert.Equal(t, 429, ask(h, "GET", "/users/4").Code)
	free := ask(h, "GET", "/free")
	assert.Equal(t, 200, free.Code)
	assert.NotContains(t, free.Header(), fieldState, "no rule, no fields")
}

func TestGuardCost(t *testing.T) {
	cost := int64(0)
	l := window("units", 10)
	store := &Memory{}
	h := (&Guard{Store: store, Rules: []Rule{{
		Key: Global, Limits: []*Limit{l}, Cost: func(*http.Request) int64 { return cost },
	}}}).Handler(ok200)
	left := func() int64 {
		d, err := store.Take(context.Background(), l.Charge("global", 0))
		require.NoError(t, err)
		return d.Remaining
	}
	w := ask(h, "GET", "/")
	assert.Equal(t, 200, w.Code)
	assert.NotContains(t, w.Header(), fieldState, "what is free is not charged")
	assert.EqualValues(t, 10, left())
	cost = 7
	assert.Equal(t, []int{200, 429}, statuses(2, h, "GET", "/"))
	assert.EqualValues(t, 3, left())
	cost = -1
	assert.Equal(t, 200, ask(h, "GET", "/").Code)
	assert.EqualValues(t, 2, left(), "a negative cost is one, and gives nothing back")
	cost = -1 << 63
	assert.Equal(t, 200, ask(h, "GET", "/").Code)
	assert.EqualValues(t, 1, left())
	cost = 1<<63 - 1
	w = ask(h, "GET", "/")
	assert.Equal(t, 429, w.Code)
	assert.Empty(t, w.Header().Get("Retry-After"))
}

// Costs that a client can make as large as it likes do not add up to a small one.
func TestGuardHugeCosts(t *testing.T) {
	l := window("units", 10)
	huge := func(*http.Request) int64 { return 1<<63 - 1 }
	h := (&Guard{Rules: []Rule{
		{Key: Global, Limits: []*Limit{l}, Cost: huge},
		{Pattern: "/x", Key: Global, Limits: []*Limit{l}, Cost: huge},
	}}).Handler(ok200)
	assert.Equal(t, 429, ask(h, "GET", "/x").Code)

	// Nor in a store that adds without looking.
	store := storeFunc(func(_ context.Context, c ...Charge) (Decision, error) {
		sum := c[0].Cost + c[1].Cost
		assert.Positive(t, sum)
		return Decision{By: l, Allowed: sum < 10}, nil
	})
	h = (&Guard{Store: store, Rules: []Rule{
		{Key: Global, Limits: []*Limit{l}, Cost: huge},
		{Pattern: "/x", Key: Global, Limits: []*Limit{l}, Cost: huge},
	}}).Handler(ok200)
	assert.Equal(t, 429, ask(h, "GET", "/x").Code)
}

// What two rules charge to one limit and key is refused as what it costs together.
func TestGuardTellsTheWholeCost(t *testing.T) {
	for quota, want := range map[int64]string{
		3: `This request costs 2, more than is left of limit \"w\" (3 per minute). Try again in 60 seconds.","violated-policies":["w"],"limit":"w","quota":3,"remaining":1,"cost":2,`,
		1: `This request costs 2, more than can ever pass limit \"w\" (1 per minute). Waiting will not help; ask for at most 1 at once.","violated-policies":["w"],"limit":"w","quota":1,"remaining":1,"cost":2`,
	} {
		l := window("w", quota)
		h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{l}}, {Pattern: "/x", Key: Global, Limits: []*Limit{l}}}}).Handler(ok200)
		ask(h, "GET", "/x")
		assert.Contains(t, ask(h, "GET", "/x").Body.String(), want)
	}
}

// A cost beyond what most limits have is charged in full to one that has it.
func TestGuardCostsOfALargeLimit(t *testing.T) {
	for _, quota := range []int64{1 << 53, 1 << 60, 1 << 62} {
		for _, more := range []int64{-1, 0, 1, 1 << 61} {
			cost := quota/2 + more
			bytes := made(FixedWindow("bytes", quota, time.Hour, ToFirst))
			h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{bytes}, Cost: func(*http.Request) int64 { return cost }}}}).Handler(ok200)
			n := 0
			for range 3 {
				if ask(h, "GET", "/").Code == 200 {
					n++
				}
			}
			assert.EqualValues(t, quota/cost, n, "%d of %d", cost, quota)
		}
	}
}

func TestGuardExempt(t *testing.T) {
	h := (&Guard{Rules: []Rule{{
		Key: Global, Limits: []*Limit{window("w", 1)},
		Exempt: func(r *http.Request) bool { return r.Header.Get("Staff") != "" },
	}}}).Handler(ok200)
	assert.Equal(t, []int{200, 200}, statuses(2, h, "GET", "/", "Staff", "1"))
	assert.Equal(t, []int{200, 429}, statuses(2, h, "GET", "/"))
	assert.Equal(t, 200, ask(h, "GET", "/", "Staff", "1").Code)
}

func TestGuardTier(t *testing.T) {
	free, pro := []*Limit{window("free", 1)}, []*Limit{nil, window("pro", 3)}
	tiers := map[string][]*Limit{"free": free, "pro": pro, "holes": {nil, nil}}
	h := (&Guard{Contact: "sales@example.com", Rules: []Rule{
		{Key: Global, Limits: []*Limit{window("all", 100)}},
		{
			Key:  byHeader("User"),
			Tier: func(r *http.Request) []*Limit { return tiers[r.Header.Get("Plan")] },
		},
	}}).Handler(ok200)
	assert.Equal(t, []int{200, 429}, statuses(2, h, "GET", "/", "User", "ann", "Plan", "free"))
	assert.Equal(t, []int{200, 200, 200, 429}, statuses(4, h, "GET", "/", "User", "ben", "Plan", "pro"))
	w := ask(h, "GET", "/", "User", "ben", "Plan", "pro")
	assert.Equal(t, `"all";q=100;w=60, "pro";q=3;w=60`, w.Header().Get("RateLimit-Policy"))

	// A plan that was forgotten is not one without limits.
	for _, plan := range []string{"", "holes"} {
		w = ask(h, "GET", "/", "User", "cat", "Plan", plan)
		assert.Equal(t, 403, w.Code)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		assert.Empty(t, w.Header().Get("Retry-After"))
		assert.JSONEq(t, `{"type":"about:blank","title":"Forbidden","status":403,"contact":"sales@example.com",
			"detail":"No limits are set for this caller, so nothing is allowed."}`, w.Body.String())
	}
	assert.Equal(t, `"all";r=95;t=60, "free";r=0;t=60`, ask(h, "GET", "/", "User", "dan", "Plan", "free").Header().Get("RateLimit"),
		"no charge was made for those")
}

// Requests without an identity are limited, by connection, whatever else they
// say (HealthClawGuardrails#339, tollbooth).
func TestGuardWithoutIdentity(t *testing.T) {
	store := &Memory{}
	h := (&Guard{Store: store, Rules: []Rule{{Key: byHeader("User"), Limits: []*Limit{window("w", 2)}}}}).Handler(ok200)
	from := func(addr string, headers ...string) int {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = addr
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	refusals := 0
	for i := range 150 {
		if from("203.0.113.7:1234", "X-Tenant-Id", string(rune('a'+i))) == 429 {
			refusals++
		}
	}
	assert.Equal(t, 148, refusals)
	assert.Equal(t, 1, store.Stats().Keys)
	assert.Equal(t, 200, from("203.0.113.8:1"))
	assert.Equal(t, 200, from("[2001:db8::1]:1"))
	assert.Equal(t, 200, from("[2001:db8::2]:1"))
	assert.Equal(t, 429, from("[2001:db8::3%eth0]:1"), "one network")
	assert.Equal(t, 200, from("[2001:db8:0:1::1]:1"))
	assert.Equal(t, 200, from("@"))
	assert.Equal(t, 200, from(""))
	assert.Equal(t, 429, from("nonsense"), "they share one")

	// Nobody can pose as one without an identity.
	assert.Equal(t, 200, from("198.51.100.1:1", "User", "nobody|203.0.113.9"))
	assert.Equal(t, 200, from("198.51.100.1:1", "User", "nobody|203.0.113.9"))
	assert.Equal(t, 429, from("198.51.100.1:1", "User", "nobody|203.0.113.9"))
	assert.Equal(t, 200, from("203.0.113.9:1"))
	assert.NotEqual(t, identity(httptest.NewRequest("GET", "/", nil), ""), identity(nil, "nobody|192.0.2.1"))
	assert.NotEqual(t, identity(nil, "nobody||x"), identity(nil, "nobody|x"))
	assert.NotEqual(t, identity(nil, "nobody||nobody|x"), identity(nil, "nobody|x"))
}

func TestGuardDryRun(t *testing.T) {
	var events []Event
	note := func(e Event) { events = append(events, e) }
	real, trial, other := window("real", 4), window("trial", 2), window("other", 100)
	store := &Memory{}
	h := (&Guard{Store: store, Hooks: &Hooks{Admitted: note, Refused: note}, Rules: []Rule{
		{Key: Global, Limits: []*Limit{trial}, DryRun: true},
		{Key: Global, Limits: []*Limit{real}},
		{Pattern: "/", Key: Global, Limits: []*Limit{other}, DryRun: true},
		{Pattern: "/x", Key: Global, Tier: func(*http.Request) []*Limit { return nil }, DryRun: true},
	}}).Handler(ok200)
	assert.Equal(t, []int{200, 200, 200, 200, 429}, statuses(5, h, "GET", "/x"))
	var got []string
	for _, e := range events {
		s := e.Limit.Name()
		if e.DryRun {
			s += " on trial"
		}
		if e.Decision.Allowed {
			s += " admits"
		}
		got = append(got, s)
	}
	assert.Equal(t, []string{
		"real admits", "trial on trial admits", "real admits", "trial on trial admits",
		"real admits", "trial on trial", "real admits", "trial on trial", "real",
	}, got)
	d, err := store.Take(context.Background(), other.Charge("global", 0))
	require.NoError(t, err)
	assert.EqualValues(t, 98, d.Remaining, "charged as if the trial were over: all or none")
	w := ask(h, "GET", "/")
	assert.Equal(t, `"real";r=0;t=60`, w.Header().Get("RateLimit"))

	only := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{made(LeakyQueue("q", Per(1, time.Hour), 2))}, DryRun: true}}}).Handler(ok200)
	assert.Equal(t, []int{200, 200, 200}, statuses(3, only, "GET", "/"), "at once")
	assert.NotContains(t, ask(only, "GET", "/").Header(), fieldState)
}

func TestGuardHooks(t *testing.T) {
	var events []Event
	hooks := &Hooks{
		Admitted: func(e Event) { e.Charges = slices.Clone(e.Charges); events = append(events, e) },
		Refused:  func(e Event) { e.Charges = slices.Clone(e.Charges); events = append(events, e) },
	}
	a, b := window("a", 10), window("b", 1)
	h := (&Guard{Hooks: hooks, Rules: []Rule{
		{Pattern: "/x/", Key: Global, Limits: []*Limit{a}, Cost: func(*http.Request) int64 { return 2 }},
		{Pattern: "GET /x/{y}", Key: byHeader("User"), Limits: []*Limit{b}},
	}}).Handler(ok200)
	statuses(2, h, "GET", "/x/y", "User", "ann")
	require.Len(t, events, 2)
	e := events[0]
	assert.True(t, e.Decision.Allowed)
	assert.Equal(t, []Charge{{a, "global", 2}, {b, "ann", 1}}, e.Charges)
	assert.Equal(t, b, e.Limit, "the tightest")
	e = events[1]
	assert.False(t, e.Decision.Allowed)
	assert.Equal(t, "GET /x/{y}", e.Pattern)
	assert.Equal(t, b, e.Limit)
	assert.Equal(t, "ann", e.Key)
	assert.EqualValues(t, 1, e.Cost)
	assert.Equal(t, "/x/y", e.Request.URL.Path)
	assert.Len(t, e.Decision.Each, 2)
}

// Of one limit with two keys the one that refuses is told.
func TestGuardHooksTellTheKey(t *testing.T) {
	var key, pattern string
	l := window("w", 2)
	h := (&Guard{Hooks: &Hooks{Refused: func(e Event) { key, pattern = e.Key, e.Pattern }}, Rules: []Rule{
		{Key: byHeader("User"), Limits: []*Limit{l}},
		{Pattern: "/x", Key: Global, Limits: []*Limit{l}},
	}}).Handler(ok200)
	for _, user := range []string{"ann", "ben", "cat"} {
		ask(h, "GET", "/x", "User", user)
	}
	assert.Equal(t, "global", key)
	assert.Equal(t, "/x", pattern)
	assert.Equal(t, `"w";r=2;t=0, "w";r=0;t=60`, ask(h, "GET", "/x", "User", "dan").Header().Get("RateLimit"))
}

func TestGuardDegrade(t *testing.T) {
	var told Decision
	l := window("w", 1)
	h := (&Guard{
		Rules: []Rule{{Key: Global, Limits: []*Limit{l, window("v", 9)}}},
		Degrade: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var ok bool
			told, ok = DecisionFrom(r.Context())
			assert.True(t, ok)
			_, _ = w.Write([]byte("from the cache"))
		}),
	}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, ok := DecisionFrom(r.Context())
		assert.False(t, ok)
	}))
	ask(h, "GET", "/")
	w := ask(h, "GET", "/")
	assert.Equal(t, 200, w.Code)
	assert.Equal(t, "from the cache", w.Body.String())
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	assert.Equal(t, "60", w.Header().Get("Retry-After"))
	assert.NotContains(t, w.Header().Get("Content-Type"), "problem")
	assert.NotEmpty(t, w.Header().Get("RateLimit"))
	ask(h, "GET", "/") // what was told stays as it was
	assert.False(t, told.Allowed)
	assert.Equal(t, l, told.By)
	require.Len(t, told.Each, 2)
	assert.Equal(t, l, told.Each[0].By)
}
