package bench

import (
	"context"
	"math/rand/v2"
	"strconv"
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
	fewer(decisions("1e6 kept keys at random, 1 goroutine", kept())),
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

// random is a decision for a key whose state is in no cache of the processor, on
// a table that is full before. The key's own text is in one, as that of a request
// is which has just been read.
func random(goroutines int) []Side {
	var sides []Side
	for _, d := range Deciders {
		if !d.Alone {
			sides = append(sides, asking(d.Name, goroutines, lasting(d), key, brought))
		}
	}
	return append(sides,
		asking("making the key", goroutines, looking, key, brought),
		asking("reading a map", goroutines, readingMap, key, brought))
}

// kept is the same for the very strings that the table was filled with, in an
// array that is in no cache either. No server has one. To read it is part of every
// side, and a map that keeps strings need not look at their bytes, since they are
// not only equal but the same.
func kept() []Side {
	inArray := func(i int) string { return Keys()[i] }
	var sides []Side
	for _, d := range Deciders {
		if d.Name == XTimeMapName || d.Name == "polite" {
			sides = append(sides, asking(d.Name, 1, lasting(d), inArray, fromArray))
		}
	}
	return append(sides,
		asking("reading the key", 1, looking, inArray, fromArray),
		asking("reading a map", 1, readingMap, inArray, fromArray))
}

// asking is a side that decides on keys at random, all of which it knows.
func asking(name string, goroutines int, start func() (func(key string) bool, func()),
	known func(i int) string, keys func(pick func() int) func() string,
) Side {
	return Side{name, func() (func(*testing.B), func()) {
		allow, stop := start()
		n := small(1_000_000, 1_000)
		for i := range n {
			allow(known(i))
		}
		return deciding(goroutines, func() func() bool {
			at := rand.NewPCG(rand.Uint64(), 1)
			next := keys(func() int { return int(at.Uint64() % uint64(n)) })
			return func() bool { return allow(next()) }
		}), stop
	}}
}

// brought makes keys anew, some at a time, so that no side pays for allocations.
func brought(pick func() int) func() string {
	var text []byte
	var made string
	return func() string {
		if made == "" {
			text = text[:0]
			for range 256 {
				text = appendKey(text, pick())
			}
			made = string(text)
		}
		next := made[:keyLen]
		made = made[keyLen:]
		return next
	}
}

func fromArray(pick func() int) func() string {
	keys := Keys()
	return func() string { return keys[pick()] }
}

func lasting(d Decider) func() (func(string) bool, func()) {
	return func() (func(string) bool, func()) { return d.New(Lasting) }
}

// looking and readingMap are what no limiter, and none with a map, can avoid.
func looking() (func(string) bool, func()) {
	return func(key string) bool { return key[0] == 'c' }, func() {}
}

func readingMap() (func(string) bool, func()) {
	m := make(map[string]bool)
	return func(key string) bool {
		if !m[key] {
			m[key] = true
		}
		return true
	}, func() {}
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

const keyLen = 20

func key(i int) string { return string(appendKey(nil, i)) }

func appendKey(text []byte, i int) []byte {
	return strconv.AppendInt(append(text, "customer-"...), 10_000_000_000+int64(i), 10)
}
