package limiter_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/politehttp/polite/limiter"
)

// A Monitor says who is refused, and by how much demand exceeds a limit.
func ExampleMonitor() {
	perAddress, err := limiter.TokenBucket("per-address", limiter.Per(10, time.Hour), 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := &limiter.Monitor{}
	g := &limiter.Guard{
		Rules: []limiter.Rule{{Key: limiter.ByAddress(nil), Limits: []*limiter.Limit{perAddress}}},
		Hooks: m.Hooks(),
	}
	api := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for range 14 {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "203.0.113.7:4711"
		api.ServeHTTP(httptest.NewRecorder(), r)
	}

	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/limits", nil))
	var seen struct {
		Requests struct {
			Admitted, Refused int
			Near              float64 `json:"near_share"`
		}
		Limits []struct {
			Name  string
			Units int `json:"refused_units"`
		}
		Top struct {
			Keys []struct {
				Key     string
				Refused int
			}
		} `json:"top_refused"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &seen); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", seen.Requests)
	fmt.Printf("%+v\n", seen.Limits)
	fmt.Printf("%+v\n", seen.Top.Keys)
	// Output:
	// {Admitted:10 Refused:4 Near:0.2}
	// [{Name:per-address Units:4}]
	// [{Key:address|203.0.113.7 Refused:4}]
}
