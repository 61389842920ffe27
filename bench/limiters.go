package bench

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/didip/tollbooth/v7"
	tollbooths "github.com/didip/tollbooth/v7/limiter"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/politehttp/polite/limiter"
)

// Regime is what limiters are set to: Count units in Per and at most Burst at
// once, or Burst in each window of Per for those that count in windows.
type Regime struct {
	Count, Burst int64
	Per          time.Duration
	Expire       time.Duration // keys that nobody used for so long may go; zero: the default
}

// Regimes.
var (
	Passing  = Regime{Count: 1e9, Burst: 1e9, Per: time.Second} // nobody is refused
	Refusing = Regime{Count: 1, Burst: 1, Per: time.Hour}       // all but the first are
	Lasting  = Regime{Count: 1, Burst: 1e6, Per: time.Minute}   // nobody is refused, and no key may be forgotten
)

func (r Regime) perSecond() float64 { return float64(r.Count) / r.Per.Seconds() }

// Decider is a limiter in memory.
type Decider struct {
	Name  string
	Alone bool // has no keys: a single limit
	New   func(Regime) (allow func(key string) bool, stop func())
}

// Deciders are the limiters that are compared.
var Deciders = []Decider{
	{Name: XTimeMapName, New: XTimeMap},
	{Name: "polite", New: PoliteMemory},
	{Name: "go-limiter", New: GoLimiter},
	{Name: "throttled", New: Throttled},
	{Name: "httprate", New: HTTPRate},
	{Name: "ulule", New: Ulule},
	{Name: "tollbooth", New: Tollbooth},
	{Name: "x/time, no keys", Alone: true, New: func(r Regime) (func(string) bool, func()) {
		l := rate.NewLimiter(rate.Limit(r.perSecond()), int(r.Burst))
		return func(string) bool { return l.Allow() }, func() {}
	}},
	{Name: "failsafe-go bursty, no keys", Alone: true, New: func(r Regime) (func(string) bool, func()) {
		l := ratelimiter.NewBursty[any](uint(r.Burst), r.Per)
		return func(string) bool { return l.TryAcquirePermit() }, func() {}
	}},
	{Name: "failsafe-go smooth, no keys", Alone: true, New: func(r Regime) (func(string) bool, func()) {
		l := ratelimiter.NewSmooth[any](uint(r.Count), r.Per)
		return func(string) bool { return l.TryAcquirePermit() }, func() {}
	}},
	{Name: "uber Take, no keys", Alone: true, New: func(r Regime) (func(string) bool, func()) {
		l := ratelimit.New(int(r.Count), ratelimit.Per(r.Per))
		return func(string) bool { l.Take(); return true }, func() {}
	}},
}

// PoliteMemory is limiter.Memory with a TokenBucket.
func PoliteMemory(r Regime) (func(string) bool, func()) {
	memory, limit := &limiter.Memory{}, bucket("default", r)
	ctx := context.Background()
	return func(key string) bool {
		d, err := memory.Take(ctx, limit.Charge(key, 1))
		return d.Allowed && err == nil
	}, func() {}
}

func bucket(name string, r Regime) *limiter.Limit {
	return must(limiter.TokenBucket(name, limiter.Per(r.Count, r.Per), r.Burst))
}

// XTimeMapName names what many programs have: x/time/rate limiters in a map
// with a mutex.
const XTimeMapName = "x/time map"

// XTimeMap looks up a key's limiter under a mutex and asks it outside.
func XTimeMap(r Regime) (func(string) bool, func()) {
	var mu sync.Mutex
	limiters := make(map[string]*rate.Limiter)
	return func(key string) bool {
		mu.Lock()
		l := limiters[key]
		if l == nil {
			l = rate.NewLimiter(rate.Limit(r.perSecond()), int(r.Burst))
			limiters[key] = l
		}
		mu.Unlock()
		return l.Allow()
	}, func() {}
}

// GoLimiter is sethvargo/go-limiter's store in memory.
func GoLimiter(r Regime) (func(string) bool, func()) {
	store := goLimiterStore(r)
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, _ := store.Take(ctx, key)
		return ok
	}, func() { store.Close(ctx) }
}

func goLimiterStore(r Regime) golimiter.Store {
	every := r.Per
	if r.perSecond() > 31_622 {
		every = time.Hour // above, a refill gives interval/tokens, which is less than was asked for
	}
	return must(memorystore.New(&memorystore.Config{
		Tokens: uint64(r.Burst), Interval: every,
		SweepInterval: r.Expire / 2, SweepMinTTL: r.Expire,
	}))
}

// Throttled is throttled's GCRA over its store in memory, which is unbounded.
func Throttled(r Regime) (func(string) bool, func()) {
	l := throttledLimiter(r)
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return !limited && err == nil
	}, func() {}
}

func throttledLimiter(r Regime) *throttled.GCRARateLimiterCtx {
	return must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(0)), throttled.RateQuota{
		MaxRate: throttled.PerDuration(int(r.Count), r.Per), MaxBurst: int(r.Burst) - 1,
	}))
}

// HTTPRate is httprate's counter, used as its middleware does, without the
// headers that the middleware sets in the same step.
func HTTPRate(r Regime) (func(string) bool, func()) {
	counter := httprate.NewLocalLimitCounter(r.Per)
	var mu sync.Mutex
	return func(key string) bool {
		now := time.Now().UTC()
		window := now.Truncate(r.Per)
		mu.Lock()
		defer mu.Unlock()
		current, previous, _ := counter.Get(key, window, window.Add(-r.Per))
		weight := float64(r.Per-now.Sub(window)) / float64(r.Per)
		if int64(math.Round(float64(previous)*weight+float64(current)))+1 > r.Burst {
			return false
		}
		return counter.IncrementBy(key, window, 1) == nil
	}, func() {}
}

// Ulule is ulule/limiter's store in memory.
func Ulule(r Regime) (func(string) bool, func()) {
	l := ululeLimiter(r)
	ctx := context.Background()
	return func(key string) bool {
		c, err := l.Get(ctx, key)
		return !c.Reached && err == nil
	}, func() {}
}

func ululeLimiter(r Regime) *ulule.Limiter {
	options := ulule.StoreOptions{Prefix: ulule.DefaultPrefix, CleanUpInterval: ulule.DefaultCleanUpInterval}
	if r.Expire > 0 {
		options.CleanUpInterval = r.Expire / 2
	}
	return ulule.New(memory.NewStoreWithOptions(options), ulule.Rate{Period: r.Per, Limit: r.Burst})
}

// Tollbooth is tollbooth's limiter. It gives no memory back, unless the program
// calls a method for that, which this does not.
func Tollbooth(r Regime) (func(string) bool, func()) {
	l := tollboothLimiter(r)
	return func(key string) bool { return !l.LimitReached(key) }, func() {}
}

func tollboothLimiter(r Regime) *tollbooths.Limiter {
	options := &tollbooths.ExpirableOptions{DefaultExpirationTTL: r.Expire}
	return tollbooth.NewLimiter(r.perSecond(), options).SetBurst(int(r.Burst))
}
