package limiter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/politehttp/polite/limiter"
)

// However the parts are cut, no two lists have the same key, and a key is plain
// text of bounded length.
func ExampleKey() {
	fmt.Println(limiter.Key("a:b", "c"))
	fmt.Println(limiter.Key("a", "b:c"))
	fmt.Println(limiter.Key("user", "Zoë | {7}"))
	fmt.Println(len(limiter.Key("user", string(make([]byte, 1<<20)))))
	// Output:
	// a:b|c
	// a|b:c
	// user|Zo%C3%AB%20%7C%20%7B7%7D
	// 29
}

// Who is signed in has units of their own; all others by address.
func ExampleFirstOf() {
	signedIn := func(r *http.Request) string { // as your authentication knows it
		if user, password, _ := r.BasicAuth(); password == "correct" {
			return user
		}
		return ""
	}
	key := limiter.FirstOf(limiter.ByUser(signedIn), limiter.ByAddress(nil))

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.7:4711"
	fmt.Println(key(r))
	r.SetBasicAuth("ann", "wrong")
	fmt.Println(key(r))
	r.SetBasicAuth("ann", "correct")
	fmt.Println(key(r))
	// Output:
	// address|203.0.113.7
	// address|203.0.113.7
	// user|ann
}
