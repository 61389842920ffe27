package redisstore_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/redisstore"
)

// A Guard says at the start what its Store could not do later.
func TestGuardAsksTheStore(t *testing.T) {
	client, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}) // is never asked
	require.NoError(t, err)
	limit := func(l *limiter.Limit, err error) *limiter.Limit {
		require.NoError(t, err)
		return l
	}
	bucket := func(name string, n int64) *limiter.Limit {
		return limit(limiter.TokenBucket(name, limiter.Per(n, time.Hour), n))
	}
	free, pro := bucket("plan", 100), bucket("plan", 1000)
	same := bucket("same", 5)
	rule := func(pattern string, limits ...*limiter.Limit) limiter.Rule {
		return limiter.Rule{Pattern: pattern, Key: limiter.Global, Limits: limits}
	}
	for _, test := range []struct {
		name  string
		store *redisstore.Store
		rules []limiter.Rule
		want  string // "": nothing is wrong
	}{
		{"right", &redisstore.Store{Client: client}, []limiter.Rule{rule("", bucket("a", 10), bucket("b", 20))}, ""},
		{"no client", &redisstore.Store{}, []limiter.Rule{rule("", bucket("a", 10))}, "Store.Client is nil"},
		{"a prefix with braces", &redisstore.Store{Client: client, Prefix: "{a"}, []limiter.Rule{rule("", bucket("a", 10))}, "Store.Prefix"},
		{"not whole microseconds", &redisstore.Store{Client: client}, []limiter.Rule{
			rule("", limit(limiter.FixedWindow("w", 5, time.Hour+1500, limiter.ToFirst))),
		}, "microsecond"},
		{"a log that is too long", &redisstore.Store{Client: client}, []limiter.Rule{
			rule("", limit(limiter.SlidingLog("log", 5000, time.Minute))),
		}, "log"},
		{"two of one name", &redisstore.Store{Client: client}, []limiter.Rule{
			rule("GET /", bucket("api", 100)), rule("POST /", bucket("api", 10)),
		}, `two limits are named "api"`},
		{"of which one is on trial", &redisstore.Store{Client: client}, []limiter.Rule{
			rule("", bucket("api", 100)), {Key: limiter.Global, Limits: []*limiter.Limit{bucket("api", 10)}, DryRun: true},
		}, `two limits are named "api"`},
		{"one in two rules", &redisstore.Store{Client: client}, []limiter.Rule{rule("GET /", same), rule("POST /", same)}, ""},
		{"plans, of which a key has one", &redisstore.Store{Client: client}, []limiter.Rule{{
			Key:   limiter.Global,
			Tier:  func(*http.Request) []*limiter.Limit { return []*limiter.Limit{free} },
			Plans: []limiter.Plan{{Name: "free", Limits: []*limiter.Limit{free}}, {Name: "pro", Limits: []*limiter.Limit{pro}}},
		}}, ""},
		{"a plan's and a rule's", &redisstore.Store{Client: client}, []limiter.Rule{rule("", bucket("plan", 3)), {
			Key:   limiter.Global,
			Tier:  func(*http.Request) []*limiter.Limit { return []*limiter.Limit{free} },
			Plans: []limiter.Plan{{Name: "free", Limits: []*limiter.Limit{free}}},
		}}, `two limits are named "plan"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := (&limiter.Guard{Store: test.store, Rules: test.rules}).Check()
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			assert.ErrorContains(t, err, "limiter: Guard.Store")
		})
	}
}

// So does a Pacer, and a Quota.
func TestOthersAskTheStore(t *testing.T) {
	client, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	well := &redisstore.Store{Client: client}
	for _, test := range []struct {
		pacer *pacer.Pacer
		want  string
	}{
		{&pacer.Pacer{Rate: pacer.Per(10, time.Second), Burst: 5, Shared: well}, ""},
		{&pacer.Pacer{Rate: pacer.Per(10, time.Second), Shape: pacer.LeakyBucket, Shared: well}, ""},
		{&pacer.Pacer{Shared: well}, ""},
		{&pacer.Pacer{Rate: pacer.Per(10, time.Second)}, ""},
		{&pacer.Pacer{Rate: pacer.Rate{Count: 5}}, "pacer: Pacer.Rate is 5 per 0s"},
		{&pacer.Pacer{Shared: &redisstore.Store{}}, "pacer: Pacer.Shared: redisstore: Store.Client is nil"},
		{&pacer.Pacer{Rate: pacer.Per(10, time.Second), Shared: &redisstore.Store{Client: client, Prefix: "{"}}, "Store.Prefix"},
		{&pacer.Pacer{Rate: pacer.Per(1_000_003, 7*24*time.Hour), Burst: 10_000, Shared: well}, "not exact in Redis"},
		{&pacer.Pacer{Rate: pacer.Per(1<<62, time.Second), Shared: well}, "not exact in Redis"},
	} {
		if err := test.pacer.Check(); test.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, test.want)
		}
	}
	assert.NoError(t, (&quota.Quota{Name: "calls", Limit: 10, Store: well}).Check())
	assert.ErrorContains(t, (&quota.Quota{Name: "calls", Limit: 10, Store: &redisstore.Store{}}).Check(), `quota: "calls": Quota.Store: redisstore: Store.Client is nil`)
	transport := polite.NewTransport(nil)
	transport.Pacer = &pacer.Pacer{Rate: pacer.Per(10, time.Second), Shared: &redisstore.Store{}}
	assert.ErrorContains(t, transport.Check(), "polite: Transport.Pacer: pacer: Pacer.Shared: redisstore: Store.Client is nil")
}

// What a program asks for that can never be kept is told, each time: a Guard and a
// Pacer take it for a store that is away, and go on.
func TestFaultsAreTold(t *testing.T) {
	client, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	window := func(name string, quota int64, d time.Duration) *limiter.Limit {
		l, err := limiter.FixedWindow(name, quota, d, limiter.ToFirst)
		require.NoError(t, err)
		return l
	}
	all := window("all", 5, time.Hour)
	all.Global = true
	crossing := &redisstore.Store{Client: client, Tag: func(c limiter.Charge) string { return c.Key }}
	for name, test := range map[string]struct {
		store   *redisstore.Store
		charges []limiter.Charge
		want    string
	}{
		"no client":      {&redisstore.Store{}, []limiter.Charge{window("a", 5, time.Hour).Charge("k", 1)}, "Store.Client"},
		"not exact":      {&redisstore.Store{Client: client}, []limiter.Charge{window("a", 5, time.Hour+1).Charge("k", 1)}, "microseconds"},
		"one name":       {&redisstore.Store{Client: client}, []limiter.Charge{window("a", 5, time.Hour).Charge("k", 1), window("a", 6, time.Hour).Charge("k", 1)}, `two limits named "a"`},
		"a tag":          {crossing, []limiter.Charge{window("a", 5, time.Hour).Charge("k", 1), window("b", 5, time.Hour).Charge("l", 1)}, "Store.Tag"},
		"a tag, in half": {crossing, []limiter.Charge{all.Charge("", 1), window("a", 5, time.Hour).Charge("k", 1), window("b", 5, time.Hour).Charge("l", 1)}, "Store.Tag"},
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			test.store.OnDegraded = func(err error) { told = append(told, err) }
			_, err := test.store.Take(t.Context(), test.charges...)
			require.ErrorContains(t, err, test.want)
			require.Equal(t, []error{err}, told)
			guard := &limiter.Guard{Store: test.store}
			for _, c := range test.charges {
				guard.Rules = append(guard.Rules, limiter.Rule{Key: func(*http.Request) string { return "/" + c.Key }, Limits: []*limiter.Limit{c.Limit}})
			}
			if guard.Check() != nil {
				return // it does not start with that
			}
			guard.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			require.Len(t, told, 2)
		})
	}

	var told []error
	s := &redisstore.Store{Client: client, OnDegraded: func(err error) { told = append(told, err) }}
	_, err = s.Reserve(t.Context(), "k", pacer.Pace{Rate: pacer.Per(1_000_003, 7*24*time.Hour), Burst: 10_000}, 1, time.Hour)
	require.ErrorContains(t, err, "not exact in Redis")
	require.Equal(t, []error{err}, told)
	_, err = s.Reserve(t.Context(), "k", pacer.Pace{Rate: pacer.Per(1, time.Second), Burst: 1}, 2, time.Hour)
	require.ErrorIs(t, err, pacer.ErrTooLarge)
	require.Len(t, told, 1, "that is about one call")
	p := &pacer.Pacer{Rate: pacer.Per(1_000_003, 7*24*time.Hour), Burst: 10_000, Shared: s}
	release, err := p.Wait(t.Context(), "k", 1)
	require.NoError(t, err)
	release()
	require.Len(t, told, 2)
}
