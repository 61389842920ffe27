package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/politehttp/polite/limiter"
)

// Decisions asks what a decision costs.
var Decisions = Group{"Decisions", []Question{
	decisions("hot key, 1 goroutine", hot(Passing, 1)),
	decisions("hot key, 64 goroutines", hot(Passing, 64)),
	decisions("hot key, refused", hot(Refusing, 1)),
	fewer(decisions("1e6 keys at random, 1 goroutine", random(1))),
	fewer(decisions("1e6 keys at random, 64 goroutines", random(64))),
	{Name: "three limits at once", Base: "polite", Sides: stacks()},
}}

func decisions(name string, sides []Side) Question {
	return Question{Name: name, Base: XTimeMapName, Sides: sides, Rounds: 7, Metrics: []string{"ns/op", "allocs/op", "%-wrong", "CPU-ns/op"}}
}

// fewer rounds, for to make a million keys takes longer than to ask them.
func fewer(q Question) Question {
	q.Rounds = 5
	return q
}

const hotKey = "203.0.113.7"

func hot(r Regime, goroutines int) []Side {
	var sides []Side
	for _, d := range Deciders {
		if r == Refusing && d.Name == "uber Take, no keys" {
			continue // it cannot refuse
		}
		sides = append(sides, Side{d.Name, func() (func(*testing.B), func()) {
			allow, stop := d.New(r)
			allow(hotKey)
			return deciding(goroutines, func() func() bool {
				return func() bool { return allow(hotKey) != (r == Refusing) }
			}), stop
		}})
	}
	return sides
}

// deciding measures decisions that say whether they are right, and reports how
// many are not.
func deciding(goroutines int, worker func() func() bool) func(*testing.B) {
	var wrong atomic.Int64
	counted := func() func() {
		right := worker()
		return func() {
			if !right() {
				wrong.Add(1)
			}
		}
	}
	run := parallel(goroutines, counted)
	if goroutines == 1 {
		run = serial(counted())
	}
	return func(b *testing.B) {
		wrong.Store(0)
		run(b)
		b.ReportMetric(100*float64(wrong.Load())/float64(b.N), "%-wrong")
	}
}

// random is a decision for a key that the processor's caches do not hold, on a
// table that is full before. The last two sides are what no limiter can avoid.
func random(goroutines int) []Side {
	var sides []Side
	side := func(name string, start func() (func(key string) bool, func())) {
		sides = append(sides, Side{name, func() (func(*testing.B), func()) {
			keys := Keys()
			allow, stop := start()
			for _, key := range keys {
				allow(key)
			}
			return deciding(goroutines, func() func() bool {
				next := rand.NewPCG(rand.Uint64(), 1)
				return func() bool { return allow(keys[next.Uint64()%uint64(len(keys))]) }
			}), stop
		}})
	}
	for _, d := range Deciders {
		if !d.Alone {
			side(d.Name, func() (func(string) bool, func()) { return d.New(Lasting) })
		}
	}
	side("reading the key", func() (func(string) bool, func()) {
		return func(key string) bool { return key[0] == 'c' }, func() {}
	})
	side("reading a map", func() (func(string) bool, func()) {
		m := make(map[string]int)
		for _, key := range Keys() {
			m[key] = 1
		}
		return func(key string) bool { return m[key] == 1 }, func() {}
	})
	return sides
}

// stacks is a decision on one limit, and on three of a request. Who asks three
// limiters in turn has charged the first when the third refuses.
func stacks() []Side {
	ctx := context.Background()
	memory := &limiter.Memory{}
	user, tenant, all := bucket("user", Passing), bucket("tenant", Passing), bucket("all", Passing)
	want := func(d limiter.Decision, err error) {
		if !d.Allowed || err != nil {
			panic("refused")
		}
	}
	each := make([]limiter.Decision, 3)
	var store limiter.Store = memory
	sides := []Side{
		always("polite", serial(func() { want(memory.Take(ctx, user.Charge(hotKey, 1))) })),
		always("polite, three", serial(func() {
			want(memory.TakeInto(ctx, each, user.Charge(hotKey, 1), tenant.Charge("acme", 1), all.Charge("", 1)))
		})),
		always("polite, three, as a Store", serial(func() {
			want(store.Take(ctx, user.Charge(hotKey, 1), tenant.Charge("acme", 1), all.Charge("", 1)))
		})),
	}
	for _, d := range Deciders {
		if d.Name != XTimeMapName && d.Name != "go-limiter" {
			continue
		}
		sides = append(sides, Side{d.Name + ", three in turn", func() (func(*testing.B), func()) {
			user, stopUser := d.New(Passing)
			tenant, stopTenant := d.New(Passing)
			all, stopAll := d.New(Passing)
			return serial(func() {
				if !user(hotKey) || !tenant("acme") || !all("") {
					panic("refused")
				}
			}), func() { stopUser(); stopTenant(); stopAll() }
		}})
	}
	return sides
}

// Keys are a million keys of 20 characters.
var Keys = sync.OnceValue(func() []string {
	keys := make([]string, small(1_000_000, 1_000))
	for i := range keys {
		keys[i] = key(i)
	}
	return keys
})

func key(i int) string { return fmt.Sprintf("customer-%011d", i) }
