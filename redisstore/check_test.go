package redisstore_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
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
