package bench

import (
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/retry"
)

// Parts asks what breaker and budget cost by themselves.
var Parts = Group{"Parts", []Question{
	{Name: "breaker, success, 1 goroutine", Base: "gobreaker", Sides: breakers(1)},
	{Name: "breaker, success, 64 goroutines", Base: "gobreaker", Sides: breakers(64)},
	{Name: "breaker, open", Base: "gobreaker", Sides: openBreakers()},
	{Name: "budget, a retry asks", Base: XTimeMapName, Sides: budgets()},
}}

const origin = "https://api.test:443"

func breakers(goroutines int) []Side {
	ours := func(b *breaker.Breaker) func() {
		return func() {
			permit, err := b.Enter(origin, time.Time{})
			if err != nil {
				panic(err)
			}
			permit.Done(breaker.Success, 0, time.Time{})
		}
	}
	sides := map[string]func(){
		"polite":                  ours(polite.NewTransport(nil).Breaker),
		"polite, failures in row": ours(&breaker.Breaker{}),
	}
	g := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{})
	sides["gobreaker"] = func() {
		if _, err := g.Execute(func() (int, error) { return 0, nil }); err != nil {
			panic(err)
		}
	}
	f := circuitbreaker.NewBuilder[any]().WithFailureThresholdRatio(9, 10).Build()
	sides["failsafe-go"] = func() {
		if !f.TryAcquirePermit() {
			panic("open")
		}
		f.RecordSuccess()
	}
	return named(goroutines, sides, "gobreaker", "polite", "polite, failures in row", "failsafe-go")
}

func openBreakers() []Side {
	failure := errors.New("failure")
	b := &breaker.Breaker{OpenFor: time.Hour}
	for range 5 {
		permit, _ := b.Enter(origin, time.Time{})
		permit.Done(breaker.Failure, 0, time.Time{})
	}
	g := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{Timeout: time.Hour})
	for range 6 {
		g.Execute(func() (int, error) { return 0, failure })
	}
	f := circuitbreaker.NewBuilder[any]().WithDelay(time.Hour).Build()
	f.Open()
	return named(1, map[string]func(){
		"polite": func() {
			if _, err := b.Enter(origin, time.Time{}); err == nil {
				panic("closed")
			}
		},
		"gobreaker": func() {
			if _, err := g.Execute(func() (int, error) { return 0, nil }); err == nil {
				panic("closed")
			}
		},
		"failsafe-go": func() {
			if f.TryAcquirePermit() {
				panic("closed")
			}
		},
	}, "gobreaker", "polite", "failsafe-go")
}

// Ours reads the clock here; a Transport passes on the instant that it knows.
// failsafe-go's budget cannot be asked by itself, so the peer is a token bucket
// an origin, as one would build a budget by hand.
func budgets() []Side {
	var asked, told retry.Budget
	allow, _ := XTimeMap(Regime{Count: 1, Burst: 10, Per: 10 * time.Second})
	return named(1, map[string]func(){
		"polite":                         func() { asked.Take(origin, time.Now()) },
		"polite, a call and its success": func() { now := time.Now(); told.Called(origin, now); told.Succeeded(origin, now) },
		XTimeMapName:                     func() { allow(origin) },
	}, XTimeMapName, "polite", "polite, a call and its success")
}

func named(goroutines int, all map[string]func(), order ...string) []Side {
	var sides []Side
	for _, name := range order {
		run := serial(all[name])
		if goroutines > 1 {
			run = parallel(goroutines, func() func() { return all[name] })
		}
		sides = append(sides, always(name, run))
	}
	return sides
}
