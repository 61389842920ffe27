package limiter_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// report is what users of other limiters reported, or asked for.
type report struct {
	name   string
	test   func(*testing.T) // in a bubble of its own
	reason string           // instead: why there is no test here
}

const (
	ofRedis   = "about state in Redis: a Memory has no network, no TTL and no script"
	ofOutages = "about a store that fails: a Memory does not"
)

var reports = []report{
	{name: "sethvargo/go-limiter#29: 65,535 a second, after one idle interval", test: idleInterval},
	{name: "ulule/limiter#9: the second hit does not extend a window", test: windowNotExtended},
	{name: "go-redis/redis_rate#110: rate 0 or burst 0 is an error, once", test: zeroRate},
	{name: "redis/go-redis#3404: one hit leaves burst − 1, whatever the rate", test: oneHitLeaves},
	{name: "go-redis/redis_rate#33: a million an hour, one hit", test: millionAnHour},
	{name: "go-redis/redis_rate#42: RetryAfter falls as time passes, and is absent when admitted", test: polling},
	{name: "throttled/throttled#41: 64 × 50 at once on one key", test: contended},
	{name: "bucket4j/bucket4j#407: round trips for each decision on a hot key", reason: ofRedis},
	{name: "bucket4j/bucket4j#51: idle for 12 hours", test: idleHours},
	{name: "bucket4j/bucket4j#88: 200 ms after draining one a second, the wait is 800 ms", test: waitIsTheRest},
	{name: "mailgun/gubernator#118: 3 a second under a hit every 100 ms", test: steadyHits},
	{name: "mailgun/gubernator#77: 10 per 30 s, one hit a second: a token every 3 s", test: tokenEveryThree},
	{name: "mailgun/gubernator#87: after a long idle time no more than the limit", test: longIdle},
	{name: "mailgun/gubernator#24: every answer carries the reset", test: everyAnswerResets},
	{name: "mailgun/gubernator#161: a day's quota does not refill within milliseconds", test: dayDoesNotRefill},
	{name: "mailgun/gubernator#40: a limit that is raised, and lowered, in its window", test: raisedAndLowered},
	{name: "gubernator algorithms.go:115: refused at limit 1, raised to 10", test: raisedAfterRefusal},
	{name: "gubernator interval.go:99: the length of February 2026", test: february},
	{name: "gubernator leaky bucket: 5,000 a second, drained", test: drainedFast},
	{name: "envoyproxy/ratelimit#1060, kgateway-dev/kgateway#8699, solo-io/gloo#10613: a user's refusals cost the tenant nothing", test: refusalsAreFree},
	{name: "envoyproxy/envoy#43113: the answer names the limit that refuses", test: namesTheLimit},
	{name: "envoyproxy/ratelimit#462 #978: decisions while Redis is down", reason: ofOutages},
	{name: "envoyproxy/envoy#46702: a limit of 3 shared by 5 nodes", reason: ofOutages},
	{name: "alisaifee/limits#14, OpenGateLLM#608, fastify/fastify-rate-limit#152: a counter without a TTL", reason: ofRedis},
	{name: "express-rate-limit/rate-limit-redis#216 #209 #83: a hit in the instant of expiry", test: instantOfExpiry},
	{name: "alisaifee/limits#169: a sliding log and a cost of 10,000", test: largeLog},
	{name: "Kong/kong#14995: a TTL in the command's unit", reason: ofRedis},
	{name: "Kong/kong#11859: counters that are synchronised later", reason: ofRedis},
	{name: "Kong/kong#2382: a store that cannot be reached, fail-open", test: failOpen},
	{name: "upstash/ratelimit-js#39: a sliding counter of 1 admits the first request", test: counterOfOne},
	{name: "upstash/ratelimit-js#17: what is left can be read", test: readLeft},
	{name: "upstash/ratelimit-js index.js:384: every key has a TTL", reason: ofRedis},
	{name: "animir/node-rate-limiter-flexible#184 #188 #315: a connection that is not ready", reason: ofOutages},
	{name: "animir/node-rate-limiter-flexible#210: a block without an end", reason: "there are no blocks: limits count, and keeping somebody out is for the handler before"},
	{name: "spring-cloud/spring-cloud-gateway#2412 #1117 #4027 #87: 10,000 a second, and one in ten seconds", test: fastAndSlow},
	{name: "resilience4j/resilience4j#822 #2489 #1701: 30 callers and 3 per 10 s; a limit lowered; durations that overflow", test: cycles},
	{name: "alibaba/Sentinel#462: cost 1 and cost 0 in turns", test: costZero},
	{name: "uber-go/ratelimit#106: catching up after 30 idle seconds", test: catchUp},
	{name: "golang/go#56924 #69419, cadence-workflow/cadence#6030: one of three reservations is given back", test: givenBack},
	{name: "rwz/redis-gcra#6: a cost above the burst", test: aboveBurst},
	{name: "boinkor-net/governor#171, librefang#3668, mcp-ts-core#405: a million one-shot keys, and the empty key", test: oneShotKeys},
	{name: "LemmyNet/lemmy#4560: forgetting forgets only what equals new", test: forgetsOnlyFresh},
	{name: "apache/shenyu#6754 #5100: a sliding log forgets before it counts", test: logForgets},
	{name: "aspnetcore-redis-rate-limiting#2, redisson/redisson#4462, bluetape4k#944: a lease's holder dies", reason: "there are no leases: how much at once is not a limiter's question"},
	{name: "grafana/loki#22435, transparency-dev/tessera#185: parts of a key that run together", test: partsOfKeys},
	{name: "HealthClawGuardrails#339: 150 requests with as many tenants that nobody has checked", test: rotatingTenants},
	{name: "steemit/wallet#319, tollbooth: a path parameter that rotates", test: rotatingPath},
	{name: "nginx/nginx#1583: a key that is too long is limited", test: longKey},
	{name: "alisaifee/flask-limiter#363 #183: the store dies after it has admitted", test: diesAfterwards},
	{name: "dataspoke#112: four replicas, each on its own", reason: ofOutages},
	{name: "ever-co/ever-gauzy#10194: a charge that was queued is not made later", reason: ofOutages},
	{name: "rack/rack-attack#145 #686, pagecord#937: behind a balancer, and a header that lies", test: behindBalancer},
	{name: "didip/tollbooth tollbooth.go:66: the header that names the client is absent", test: headerAbsent},
	{name: "express-rate-limit#502 #488: two addresses of one /64; Forwarded", test: ipv6AndForwarded},
	{name: "kubestellar/console#17160: a handler set caching before", test: noStore},
	{name: "planningcenter#606, stefanprodan/AspNetCoreRateLimit#490: Retry-After is whole, at least 1, and true", test: retryAfter},
}

// TestReports has a test for each report that concerns memory, HTTP or
// addresses, and says of the others why not.
func TestReports(t *testing.T) {
	require.Len(t, reports, 56)
	names, tested := map[string]bool{}, 0
	for _, r := range reports {
		require.False(t, names[r.name], r.name)
		names[r.name] = true
		require.NotEqual(t, r.test == nil, r.reason == "", r.name)
		t.Run(r.name, func(t *testing.T) {
			if r.test == nil {
				t.Skip(r.reason)
			}
			synctest.Test(t, r.test)
		})
		if r.test != nil {
			tested++
		}
	}
	require.Equal(t, 44, tested)
}
