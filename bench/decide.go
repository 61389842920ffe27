package bench

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// Decisions asks what a decision costs.
var Decisions = Group{"Decisions", []Question{
	{Name: "hot key, 1 goroutine", Base: XTimeMapName, Sides: hot(Passing, 1)},
	{Name: "hot key, 64 goroutines", Base: XTimeMapName, Sides: hot(Passing, 64)},
	{Name: "hot key, refused", Base: XTimeMapName, Sides: hot(Refusing, 1)},
	{Name: "1e6 keys at random, 1 goroutine", Base: XTimeMapName, Sides: random(1), Rounds: 5},
	{Name: "1e6 keys at random, 64 goroutines", Base: XTimeMapName, Sides: random(64), Rounds: 5},
}}

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
			decide := func() {
				if allow(hotKey) == (r == Refusing) {
					panic(d.Name + " decides wrongly")
				}
			}
			if goroutines == 1 {
				return serial(decide), stop
			}
			return parallel(goroutines, func() func() { return decide }), stop
		}})
	}
	return sides
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
			worker := func() func() {
				next := rand.NewPCG(rand.Uint64(), 1)
				return func() {
					if !allow(keys[next.Uint64()%uint64(len(keys))]) {
						panic(name + " refuses")
					}
				}
			}
			if goroutines == 1 {
				return serial(worker()), stop
			}
			return parallel(goroutines, worker), stop
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

// Keys are a million keys of 20 characters.
var Keys = sync.OnceValue(func() []string {
	keys := make([]string, small(1_000_000, 1_000))
	for i := range keys {
		keys[i] = key(i)
	}
	return keys
})

func key(i int) string { return fmt.Sprintf("customer-%011d", i) }
