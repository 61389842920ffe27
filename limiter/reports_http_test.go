package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/limiter/clientip"
)

// ask sends a request from a peer, with headers given as "Name: value", and
// returns the answer.
func ask(h http.Handler, target, peer string, headers ...string) *http.Response {
	r := httptest.NewRequest("GET", target, nil)
	r.RemoteAddr = peer
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

const peer = "192.0.2.1:5000"

// one admits one request an hour.
func one() []*limiter.Limit {
	return []*limiter.Limit{must(limiter.TokenBucket("one", limiter.Per(1, time.Hour), 1))}
}

func guarded(rules ...limiter.Rule) http.Handler {
	return (&limiter.Guard{Rules: rules}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func everyAnswerResets(t *testing.T) {
	h := guarded(limiter.Rule{Key: limiter.Global, Limits: []*limiter.Limit{must(limiter.FixedWindow("window", 2, time.Minute, limiter.ToFirst))}})
	for i, status := range []int{200, 200, 429} {
		resp := ask(h, "/", peer)
		require.Equal(t, status, resp.StatusCode)
		require.Equal(t, fmt.Sprintf(`"window";r=%d;t=%d`, max(1-i, 0), 60-i*10), resp.Header.Get("RateLimit"))
		time.Sleep(10 * time.Second)
	}
}

// broken is a store that admits, or not even that.
type broken struct{ take error }

func (b broken) Take(_ context.Context, charges ...limiter.Charge) (limiter.Decision, error) {
	l := charges[0].Limit
	return limiter.Decision{Allowed: true, By: l, Quota: l.Quota(), Delay: time.Hour}, b.take
}

func (broken) Refund(context.Context, ...limiter.Charge) error { return errors.New("gone") }

func failOpen(t *testing.T) {
	served := 0
	open := must(limiter.TokenBucket("open", limiter.Per(1, time.Hour), 1))
	closed := must(limiter.TokenBucket("closed", limiter.Per(1, time.Hour), 1))
	closed.OnFailure = limiter.Closed
	h := (&limiter.Guard{
		Store: broken{errors.New("connection refused")},
		Rules: []limiter.Rule{
			{Key: limiter.Global, Limits: []*limiter.Limit{open}},
			{Pattern: "/login", Key: limiter.Global, Limits: []*limiter.Limit{closed}},
		},
	}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	require.Equal(t, 200, ask(h, "/", peer).StatusCode)
	require.Equal(t, 503, ask(h, "/login", peer).StatusCode)
	require.Equal(t, 1, served)
}

func diesAfterwards(t *testing.T) {
	l := must(limiter.LeakyQueue("queue", limiter.Per(1, time.Second), 1))
	h := (&limiter.Guard{Store: broken{}, Rules: []limiter.Rule{{Key: limiter.Global, Limits: []*limiter.Limit{l}}}}).
		Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("an hour is too long to hold it") }))
	require.Equal(t, 429, ask(h, "/", peer).StatusCode, "that it cannot be given back is no reason not to answer")
}

func costZero(t *testing.T) {
	_, err := limiter.TokenBucket("bucket", limiter.Per(0, time.Second), 1)
	require.Error(t, err)
	h := guarded(limiter.Rule{Key: limiter.Global, Limits: one(), Cost: func(r *http.Request) int64 {
		cost, _ := strconv.ParseInt(r.URL.Query().Get("cost"), 10, 64)
		return cost
	}})
	for i := range 20 {
		want := 200
		if i > 0 {
			want = 429
		}
		require.Equal(t, want, ask(h, "/?cost=1", peer).StatusCode)
		require.Equal(t, 200, ask(h, "/?cost=0", peer).StatusCode, "what is free passes")
	}
}

func rotatingTenants(t *testing.T) {
	m := &limiter.Memory{}
	signedIn := func(r *http.Request) string { // nobody is
		return ""
	}
	h := (&limiter.Guard{Store: m, Rules: []limiter.Rule{
		{Key: limiter.ByTenant(signedIn), Limits: []*limiter.Limit{must(limiter.TokenBucket("tenant", limiter.Per(1, time.Hour), 20))}},
	}}).Handler(http.NotFoundHandler())
	refused := 0
	for i := range 150 {
		if ask(h, "/", peer, fmt.Sprint("X-Tenant-Id: ", i)).StatusCode == 429 {
			refused++
		}
	}
	require.Equal(t, 130, refused)
	require.Equal(t, 1, m.Stats().Keys)
}

func rotatingPath(t *testing.T) {
	m := &limiter.Memory{}
	h := (&limiter.Guard{Store: m, Rules: []limiter.Rule{{Pattern: "/users/{id}", Key: limiter.ByAddress(nil), Limits: one()}}}).Handler(http.NotFoundHandler())
	for i := range 50 {
		require.Equal(t, i > 0, ask(h, fmt.Sprint("/users/", i), peer).StatusCode == 429)
	}
	require.Equal(t, 1, m.Stats().Keys)
	require.Equal(t, 404, ask(h, "/others/1", peer).StatusCode)
}

func partsOfKeys(t *testing.T) {
	m := newMemory(t)
	l := must(limiter.TokenBucket("bucket", limiter.Per(1, time.Hour), 1))
	for _, parts := range [][]string{{"a:b", "c"}, {"a", "b:c"}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a|b"}, {"a", "b"}} {
		require.True(t, m.takeOf(l, limiter.Key(parts...), 1).Allowed, "%q", parts)
		require.False(t, m.takeOf(l, limiter.Key(parts...), 1).Allowed, "%q", parts)
	}
}

func longKey(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	h := guarded(limiter.Rule{Key: limiter.ByHeader("X-Id"), Limits: one()})
	require.Equal(t, 200, ask(h, "/", peer, "X-Id: "+long).StatusCode)
	require.Equal(t, 429, ask(h, "/", peer, "X-Id: "+long).StatusCode)
	require.Equal(t, 200, ask(h, "/", peer, "X-Id: "+long+"y").StatusCode, "nor is it cut")
	l := one()[0]
	m := newMemory(t)
	require.True(t, m.takeOf(l, long, 1).Allowed)
	require.False(t, m.takeOf(l, long, 1).Allowed)
	require.True(t, m.takeOf(l, long+"y", 1).Allowed)
}

// balancer is a Source behind one balancer at 10.0.0.1.
func balancer(header string) func(*http.Request) string {
	return limiter.ByAddress(&clientip.Source{Header: header, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
}

func behindBalancer(t *testing.T) {
	h := guarded(limiter.Rule{Key: balancer("X-Forwarded-For"), Limits: one()})
	from := func(list string) int { return ask(h, "/", "10.0.0.1:80", "X-Forwarded-For: "+list).StatusCode }
	require.Equal(t, 200, from("203.0.113.1"))
	require.Equal(t, 200, from("203.0.113.2"), "clients are kept apart")
	require.Equal(t, 429, from("203.0.113.1"))
	require.Equal(t, 429, from("127.0.0.1, 203.0.113.1"), "a client does not pass for localhost")
	require.Equal(t, 200, ask(h, "/", peer, "X-Forwarded-For: 127.0.0.1").StatusCode)
	require.Equal(t, 429, ask(h, "/", peer, "X-Forwarded-For: 198.51.100.9").StatusCode, "nor for another, past the balancer")
}

func headerAbsent(t *testing.T) {
	for _, key := range []func(*http.Request) string{
		limiter.ByHeader("X-Id"),
		limiter.ByAPIKey("X-Api-Key"),
		balancer("X-Real-Ip"),
	} {
		h := guarded(limiter.Rule{Key: key, Limits: one()})
		for i := range 50 {
			require.Equal(t, i > 0, ask(h, "/", peer).StatusCode == 429)
		}
		require.Equal(t, 200, ask(h, "/", "192.0.2.2:1").StatusCode, "by the connection's address")
	}
}

func ipv6AndForwarded(t *testing.T) {
	h := guarded(limiter.Rule{Key: limiter.ByAddress(nil), Limits: one()})
	require.Equal(t, 200, ask(h, "/", "[2001:db8::1]:1").StatusCode)
	require.Equal(t, 429, ask(h, "/", "[2001:db8::ffff:2]:2").StatusCode)
	require.Equal(t, 200, ask(h, "/", "[2001:db8:0:1::1]:1").StatusCode)
	h = guarded(limiter.Rule{Key: limiter.ByAddress(&clientip.Source{V6Bits: 56}), Limits: one()})
	require.Equal(t, 200, ask(h, "/", "[2001:db8::1]:1").StatusCode)
	require.Equal(t, 429, ask(h, "/", "[2001:db8:0:ff::1]:1").StatusCode)
	require.Equal(t, 200, ask(h, "/", "[2001:db8:0:100::1]:1").StatusCode)
	h = guarded(limiter.Rule{Key: balancer("Forwarded"), Limits: one()})
	require.Equal(t, 200, ask(h, "/", "10.0.0.1:80", "Forwarded: for=203.0.113.1").StatusCode)
	require.Equal(t, 200, ask(h, "/", "10.0.0.1:80", `Forwarded: for="[2001:db8::1]:99"`).StatusCode)
	require.Equal(t, 429, ask(h, "/", "10.0.0.1:80", `Forwarded: for=198.51.100.1, For="203.0.113.1:7";proto=https`).StatusCode)
}

func noStore(t *testing.T) {
	inner := (&limiter.Guard{Rules: []limiter.Rule{{Key: limiter.Global, Limits: one()}}}).Handler(http.NotFoundHandler())
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=300")
		w.Header().Set("Expires", "Thu, 01 Dec 2033 16:00:00 GMT")
		w.Header().Set("Etag", `"x"`)
		inner.ServeHTTP(w, r)
	})
	require.Equal(t, "public, max-age=300", ask(h, "/", peer).Header.Get("Cache-Control"))
	resp := ask(h, "/", peer)
	require.Equal(t, 429, resp.StatusCode)
	require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	require.Empty(t, resp.Header.Get("Expires"))
}

func retryAfter(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 999 * time.Millisecond, time.Second, 1001 * time.Millisecond, 90 * time.Minute} {
		h := guarded(limiter.Rule{Key: limiter.Global, Limits: []*limiter.Limit{must(limiter.TokenBucket("bucket", limiter.Per(1, every), 1))}})
		require.Equal(t, 200, ask(h, "/", peer).StatusCode)
		for range 3 {
			resp := ask(h, "/", peer)
			require.Equal(t, 429, resp.StatusCode)
			seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			require.NoError(t, err)
			require.Equal(t, max(1, int((every+time.Second-1)/time.Second)), seconds)
			time.Sleep(time.Duration(seconds) * time.Second)
			require.Equal(t, 200, ask(h, "/", peer).StatusCode)
		}
	}
}
