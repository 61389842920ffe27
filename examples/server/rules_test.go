package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// request is one to the API; its zero value is an anonymous one for a parcel.
type request struct {
	account      string // signed in as
	token        string // another
	peer         string // zero: the load balancer
	from         string // as the load balancer says
	method, path string
}

func (q request) to(t *testing.T, s *server) *httptest.ResponseRecorder {
	or := func(s, zero string) string {
		if s == "" {
			return zero
		}
		return s
	}
	r := httptest.NewRequest(or(q.method, http.MethodGet), or(q.path, "/parcels/7"), nil)
	r.RemoteAddr = or(q.peer, "127.0.0.1:1")
	r.Header.Set("X-Forwarded-For", or(q.from, "198.51.100.7"))
	if q.account != "" {
		q.token = signIn(t, s, q.account)
	}
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	return w
}

func signIn(t *testing.T, s *server, account string) string {
	r := httptest.NewRequest(http.MethodPost, "/login", nil)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	r.SetBasicAuth(account, password)
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	var said struct{ Token string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &said))
	return said.Token
}

// How many requests at one instant are let go, and which limit refuses the next,
// with what to wait.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name     string
		request  request
		admitted int
		limit    string
		wait     string
	}{
		{"anonymous", request{}, 10, "anonymous", "1"},
		{"of a false token", request{token: "ada.pro.eu:00"}, 10, "anonymous", "1"},
		{"free, eu", request{account: "ada.free.eu"}, 30, "free-eu", "1"},
		{"free, us", request{account: "ada.free.us"}, 30, "free-us", "1"},
		{"pro, eu", request{account: "ada.pro.eu"}, 60, "pro-eu", "1"},
		{"pro, us", request{account: "ada.pro.us"}, 30, "pro-us", "1"},
		{"business, eu", request{account: "ada.business.eu"}, 200, "business-eu", "1"},
		{"an export is 25", request{account: "ada.free.us", path: "/export"}, 1, "free-us", "7"}, // 20 of 25 are missing, at 3/s
		{"a login", request{method: http.MethodPost, path: "/login"}, 5, "login", "60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := newServer("")
				require.NoError(t, err)
				if c.request.account != "" {
					c.request.token, c.request.account = signIn(t, s, c.request.account), ""
				}
				answers := make(chan *httptest.ResponseRecorder, c.admitted+5)
				for range cap(answers) { // all at one instant
					go func() { answers <- c.request.to(t, s) }()
				}
				admitted := 0
				for range cap(answers) {
					w := <-answers
					if w.Code != http.StatusTooManyRequests {
						admitted++
						continue
					}
					assert.Equal(t, c.wait, w.Header().Get("Retry-After"))
					assert.Contains(t, w.Body.String(), `"violated-policies":["`+c.limit+`"]`)
				}
				assert.Equal(t, c.admitted, admitted)
			})
		})
	}
}

// Who calls is what the load balancer says, and nobody else; IPv6 by network.
func TestWhoseLimitItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newServer("")
		require.NoError(t, err)
		login := request{method: http.MethodPost, path: "/login"}
		status := func(peer, from string) int {
			r := login
			r.peer, r.from = peer, from
			return r.to(t, s).Code
		}
		for _, c := range []struct {
			peer, from string
			same       bool // as the one before
		}{
			{"127.0.0.1:1", "198.51.100.1", false},
			{"[::1]:1", "198.51.100.1", true},
			{"127.0.0.1:1", "8.8.8.8, 198.51.100.1", true},
			{"127.0.0.1:1", "198.51.100.2", false},
			{"203.0.113.1:1", "198.51.100.3", false},
			{"203.0.113.1:2", "198.51.100.4", true},
			{"127.0.0.1:1", "2001:db8::1", false},
			{"127.0.0.1:1", "2001:db8::2:1", true},
		} {
			if !c.same {
				for range 5 {
					require.Equal(t, http.StatusUnauthorized, status(c.peer, c.from), "%v", c)
				}
			}
			require.Equal(t, http.StatusTooManyRequests, status(c.peer, c.from), "%v", c)
		}
	})
}

func TestOneUserIsOneFromEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newServer("")
		require.NoError(t, err)
		ada, bob := signIn(t, s, "ada.free.us"), signIn(t, s, "bob.free.us")
		export := request{path: "/export", token: ada}
		assert.Equal(t, http.StatusOK, export.to(t, s).Code)
		export.from = "198.51.100.99"
		assert.Equal(t, http.StatusTooManyRequests, export.to(t, s).Code)
		export.token = bob
		assert.Equal(t, http.StatusOK, export.to(t, s).Code)
	})
}

func TestTheDayIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newServer("")
		require.NoError(t, err)
		r := request{token: signIn(t, s, "ada.free.eu")}
		for range 60 {
			time.Sleep(time.Second)
			require.Equal(t, http.StatusOK, r.to(t, s).Code)
		}
		time.Sleep(time.Second)
		w := r.to(t, s)
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		assert.Contains(t, w.Body.String(), `"violated-policies":["day"]`)
		wait, err := time.ParseDuration(w.Header().Get("Retry-After") + "s")
		require.NoError(t, err)
		time.Sleep(wait)
		assert.Equal(t, http.StatusOK, r.to(t, s).Code)
	})
}

func TestExportsAreForCustomers(t *testing.T) {
	s, err := newServer("")
	require.NoError(t, err)
	assert.Equal(t, http.StatusUnauthorized, request{path: "/export"}.to(t, s).Code)
}

func TestPoliciesCanAlwaysBeRead(t *testing.T) {
	s, err := newServer("")
	require.NoError(t, err)
	for range 50 {
		w := request{path: "/policies"}.to(t, s)
		require.Equal(t, http.StatusOK, w.Code)
		for _, plan := range s.rules.plans {
			require.Contains(t, w.Body.String(), plan.Name)
		}
	}
}
