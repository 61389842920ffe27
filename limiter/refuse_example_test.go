package limiter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/politehttp/polite/limiter"
)

// Failed logins are limited by the account, which stands in the form where no
// Guard looks. The unit is taken before the password is tried, so that no number
// of attempts at once gets by, and given back if it was right. A Guard by address
// belongs in front: it stops who tries many accounts.
func ExampleRefuse() {
	failures, err := limiter.FixedWindow("failed-logins", 2, 15*time.Minute, limiter.ToFirst)
	if err != nil {
		panic(err)
	}
	failures.OnFailure = limiter.Closed // for stores that can fail
	var store limiter.Store = &limiter.Memory{}

	login := func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 4096)
		account := strings.ToLower(r.PostFormValue("account"))
		attempt := failures.Charge(limiter.Key(account), 1)
		decision, err := store.Take(r.Context(), attempt)
		if err != nil || !decision.Allowed {
			limiter.Refuse(w, r, decision) // 503 after an error, else 429
			return
		}
		if r.PostFormValue("password") != "correct horse" {
			http.Error(w, "wrong account or password", http.StatusUnauthorized)
			return
		}
		if err := store.Refund(r.Context(), attempt); err != nil {
			fmt.Println("a good login was counted as a failed one:", err)
		}
		fmt.Fprintln(w, "welcome")
	}

	for _, password := range []string{"correct horse", "123456", "correct horse", "password", "correct horse"} {
		form := url.Values{"account": {"alice"}, "password": {password}}
		r := httptest.NewRequest("POST", "/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		login(w, r)
		fmt.Println(w.Code)
		if w.Code == http.StatusTooManyRequests {
			fmt.Println("Retry-After:", w.Header().Get("Retry-After"))
			fmt.Println("RateLimit:", w.Header().Get("RateLimit"))
		}
	}
	// Output:
	// 200
	// 401
	// 200
	// 401
	// 429
	// Retry-After: 900
	// RateLimit: "failed-logins";r=0;t=900
}
