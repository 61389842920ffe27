package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/goredis"
)

// Redis asks how many decisions a second processes get out of one Redis. The
// base is no limiter: it is a trivial script through go-redis, which no limiter
// on go-redis can be faster than.
var Redis = Group{"Redis", []Question{
	inRedis("1 caller", 1, manyKeys),
	inRedis("16 callers", 16, manyKeys),
	inRedis("64 callers", 64, manyKeys),
	inRedis("256 callers", 256, manyKeys),
	inRedis("64 callers, hot key", 64, 1),
}}

const (
	manyKeys  = 10_000
	redisBase = "EVALSHA by go-redis"
	// Nobody is refused.
	redisUnits = 1_000_000
	redisEvery = time.Hour
)

// A redisSide makes a decision for a key, and says whether it is right: admitted
// by Redis.
type redisSide struct {
	name  string
	start func(address string) (decide func(ctx context.Context, key string) bool, stop func())
}

var redisSides = []redisSide{
	{redisBase, func(address string) (func(context.Context, string) bool, func()) {
		client, stop := goRedis(address)
		trivial := redis.NewScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`)
		must(trivial.Load(context.Background(), client).Result())
		return func(ctx context.Context, key string) bool {
			return client.EvalSha(ctx, trivial.Hash(), []string{key}, 1).Err() == nil
		}, stop
	}},
	{"polite", func(address string) (func(context.Context, string) bool, func()) {
		client, stop := byRueidis(address)
		return politely(client, 1), stop
	}},
	{"polite, three limits", func(address string) (func(context.Context, string) bool, func()) {
		client, stop := byRueidis(address)
		return politely(client, 3), stop
	}},
	{"polite, by go-redis", func(address string) (func(context.Context, string) bool, func()) {
		client, stop := goRedis(address)
		return politely(must(goredis.New(client)), 1), stop
	}},
	{"redis_rate", func(address string) (func(context.Context, string) bool, func()) {
		client, stop := goRedis(address)
		l := redis_rate.NewLimiter(client)
		limit := redis_rate.Limit{Rate: redisUnits, Burst: redisUnits, Period: redisEvery}
		return func(ctx context.Context, key string) bool {
			r, err := l.Allow(ctx, key, limit)
			return err == nil && r.Allowed == 1
		}, stop
	}},
	{"throttled", func(address string) (func(context.Context, string) bool, func()) {
		client, stop := goRedis(address)
		l := must(throttled.NewGCRARateLimiterCtx(must(throttledredis.NewCtx(client, "throttled:")), throttled.RateQuota{
			MaxRate: throttled.PerHour(redisUnits), MaxBurst: redisUnits - 1,
		}))
		return func(ctx context.Context, key string) bool {
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return err == nil && !limited
		}, stop
	}},
	{"ulule", func(address string) (func(context.Context, string) bool, func()) {
		client, stop := goRedis(address)
		l := ulule.New(must(ululeredis.NewStore(client)), ulule.Rate{Period: redisEvery, Limit: redisUnits})
		return func(ctx context.Context, key string) bool {
			c, err := l.Get(ctx, key)
			return err == nil && !c.Reached
		}, stop
	}},
}

// goRedis is a client as its makers have set it, but that it heeds deadlines,
// which only ours has.
func goRedis(address string) (*redis.Client, func()) {
	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
	return client, func() { _ = client.Close() }
}

func byRueidis(address string) (redisstore.Client, func()) {
	client := must(redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true}))
	return client, func() { _ = client.(interface{ Close() error }).Close() }
}

// politely decides on n limits of a key at once, with the deadline that is the
// default.
func politely(client redisstore.Client, n int) func(context.Context, string) bool {
	store := &redisstore.Store{Client: client}
	limits := make([]*limiter.Limit, n)
	for i := range limits {
		limits[i] = must(limiter.TokenBucket(fmt.Sprint("limit ", i), limiter.Per(redisUnits, redisEvery), redisUnits))
	}
	return func(ctx context.Context, key string) bool {
		var few [3]limiter.Charge
		charges := few[:0]
		for _, l := range limits {
			charges = append(charges, l.Charge(key, 1))
		}
		d, err := store.Take(ctx, charges...)
		return err == nil && d.Allowed && d.Degraded == nil
	}
}

// inRedis measures decisions of so many callers on so many keys that are in use,
// each side on a server of its own.
func inRedis(name string, callers, n int) Question {
	q := Question{Name: name, Base: redisBase, Rounds: 5, Metrics: []string{"decisions/s", "%-wrong", "allocs/op", "CPU-ns/op"}}
	for _, s := range redisSides {
		q.Sides = append(q.Sides, Side{s.name, func() (func(*testing.B), func()) {
			server, err := startRedis()
			if err != nil {
				return func(b *testing.B) { b.Skip("SKIPPED: ", err) }, func() {}
			}
			decide, stop := s.start(server.address)
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprint("user-", i)
			}
			ctx := context.Background()
			for range 10 { // connects, and loads scripts
				decide(ctx, keys[0])
			}
			var group sync.WaitGroup
			for part := range slices.Chunk(keys, (n+15)/16) {
				group.Go(func() {
					for _, key := range part { // all are in use from the start
						decide(ctx, key)
					}
				})
			}
			group.Wait()
			return decidingInRedis(server, callers, func() bool { return decide(ctx, keys[rand.IntN(n)]) }), func() { stop(); server.stop() }
		}})
	}
	return q
}

func decidingInRedis(server *redisServer, callers int, right func() bool) func(*testing.B) {
	var wrong atomic.Int64
	once := func() {
		if !right() {
			wrong.Add(1)
		}
	}
	run := parallel(callers, func() func() { return once })
	if callers == 1 {
		run = serial(once)
	}
	return func(b *testing.B) {
		wrong.Store(0)
		before := processorTime() + server.processorTime()
		run(b)
		b.ReportMetric(float64(processorTime()+server.processorTime()-before)/float64(b.N), "CPU-ns/op") // Redis's, too
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
		b.ReportMetric(100*float64(wrong.Load())/float64(b.N), "%-wrong")
	}
}
