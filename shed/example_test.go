package shed_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/politehttp/polite/shed"
)

// One request at a time and none in the queue: whoever comes meanwhile is told
// when to come back.
func Example() {
	gate := &shed.Gate{Limit: 1, Queue: -1}
	busy, done := make(chan bool), make(chan bool)
	api := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy <- true
		<-done
	}))

	var first sync.WaitGroup
	first.Go(func() { api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) })
	<-busy

	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header().Get("Retry-After") != "")

	w = httptest.NewRecorder()
	healthy := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "alive") }))
	healthy.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
	fmt.Println(w.Code, w.Body)

	done <- true
	first.Wait()
	// Output:
	// 503 true
	// 200 alive
}

// A producer is slowed down to two at once.
func ExampleGate_Wait() {
	gate := &shed.Gate{Limit: 2}
	var all sync.WaitGroup
	for range 10 {
		release, err := gate.Wait(context.Background())
		if err != nil {
			break
		}
		all.Go(func() {
			defer release()
			// send an invoice
		})
	}
	all.Wait()
	fmt.Println(gate.Stats().Admitted, gate.Stats().InFlight)
	// Output: 10 0
}

// Customers have a share each, what they pay for goes first, and what only saves
// time later goes last.
func ExampleGate() {
	gate := &shed.Gate{
		Limit: 40,
		Order: shed.Milk,
		Tenant: func(r *http.Request) string {
			return r.Header.Get("Customer") // that an outer handler has checked
		},
		Known: func(r *http.Request) bool { return r.Header.Get("Customer") != "" },
		Priority: func(r *http.Request) shed.Class {
			switch r.URL.Path {
			case "/pay":
				return shed.CriticalPlus
			case "/suggestions":
				return shed.Sheddable
			}
			return shed.Critical
		},
	}
	fmt.Println(gate.Check())
	// Output: <nil>
}
