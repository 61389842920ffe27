package admission_test

import (
	"fmt"

	"github.com/politehttp/polite/internal/admission"
)

func Example() {
	const ms = 1_000_000
	g := admission.New(admission.Config{Limit: 1, Queue: 2}, 1)
	arrive := func(name, tenant string, now int64) *admission.Ticket {
		t := &admission.Ticket{Tenant: tenant, Value: name}
		fmt.Println(name, "is", g.Arrive(t, now))
		return t
	}
	tell := func(now int64) {
		for t, v := g.Next(now); t != nil; t, v = g.Next(now) {
			fmt.Println(t.Value, "is", v)
		}
	}

	first := arrive("a's first", "a", 0)
	arrive("a's second", "a", 0)
	arrive("a's third", "a", 0)
	arrive("a's fourth", "a", 0)
	arrive("b's first", "b", 0)
	tell(0)
	g.Leave(first, 10*ms, true)
	tell(10 * ms)
	fmt.Println("the next one expires at", g.Due()/ms, "ms")
	tell(g.Due())
	// Output:
	// a's first is admitted
	// a's second is queued
	// a's third is queued
	// a's fourth is full
	// b's first is queued
	// a's third is pushed
	// a's second is admitted
	// the next one expires at 200 ms
	// b's first is expired
}
