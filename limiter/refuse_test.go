package limiter

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refusing takes charges for each request, of a new Memory, and refuses.
func refusing(charges ...Charge) http.Handler {
	store := new(Memory)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := store.Take(r.Context(), charges...)
		if err != nil || !d.Allowed {
			Refuse(w, r, d)
		}
	})
}

func refuse(d Decision) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Refuse(w, httptest.NewRequest("GET", "/", nil), d)
	return w
}

func detail(t *testing.T, w *httptest.ResponseRecorder) string {
	var body struct{ Detail string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	return body.Detail
}

// What a Guard says, Refuse says, but for the cost. Of a sliding window a Guard
// knows more if its store is seen to be a Memory.
func TestRefuseAnswersAsGuard(t *testing.T) {
	for _, l := range append(oneOfEach(), made(LeakyQueue("queue", Per(1, time.Second), 5))) {
		t.Run(l.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wide, key := window("wide", 100), Global(nil)
				guarded := (&Guard{Store: struct{ Store }{new(Memory)}, Rules: []Rule{{
					Key: Global, Limits: []*Limit{wide, l}, Cost: func(*http.Request) int64 { return 6 },
				}}}).Handler(ok200)
				own := refusing(wide.Charge(key, 6), l.Charge(key, 6))
				for _, method := range []string{"GET", "HEAD"} {
					want, got := ask(guarded, method, "/"), ask(own, method, "/")
					assert.Equal(t, 429, got.Code)
					assert.Equal(t, want.Header(), got.Header())
					assert.NotContains(t, got.Header(), "Retry-After", "never")
					body := strings.Replace(want.Body.String(), "costs 6, more", "costs more", 1)
					assert.Equal(t, strings.Replace(body, `,"cost":6`, "", 1), got.Body.String())
				}

				if l.Kind() == "leaky_queue" {
					return // a Guard holds whom it admits
				}
				guarded = (&Guard{Store: struct{ Store }{new(Memory)}, Rules: []Rule{{
					Key: Global, Limits: []*Limit{wide, l}, Cost: func(*http.Request) int64 { return 5 },
				}}}).Handler(ok200)
				own = refusing(wide.Charge(key, 5), l.Charge(key, 5))
				assert.Equal(t, 200, ask(guarded, "GET", "/").Code)
				assert.Equal(t, 200, ask(own, "GET", "/").Code)
				want, got := ask(guarded, "GET", "/"), ask(own, "GET", "/")
				assert.Equal(t, 429, got.Code)
				assert.NotEmpty(t, got.Header().Get("Retry-After"))
				assert.Equal(t, want.Header(), got.Header())
				assert.Contains(t, detail(t, got), `Nothing is left of limit "`+l.Name()+`" (`)
			})
		})
	}
}

func TestRefuseGolden(t *testing.T) {
	l := window("account", 3)
	w := refuse(Decision{By: l, Quota: 3, Remaining: 2, RetryAfter: 1500 * time.Millisecond, ResetAfter: 2 * time.Second})
	assert.Equal(t, 429, w.Code)
	assert.Equal(t, http.Header{
		"Content-Type":     {"application/problem+json"},
		"Cache-Control":    {"no-store"},
		"Retry-After":      {"2"},
		"Ratelimit":        {`"account";r=2;t=2`},
		"Ratelimit-Policy": {`"account";q=3;w=60`},
	}, w.Header())
	assert.Equal(t, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",`+
		`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,`+
		`"detail":"This request costs more than is left of limit \"account\" (3 per minute). Try again in 2 seconds.",`+
		`"violated-policies":["account"],"limit":"account","quota":3,"remaining":2,"retry_after":2}`, w.Body.String())

	w = refuse(Decision{By: l, Quota: 3, Never: true})
	assert.NotContains(t, w.Header(), "Retry-After")
	assert.Equal(t, `This request costs more than can ever pass limit "account" (3 per minute). Waiting will not help; ask for at most 3 at once.`, detail(t, w))

	queue := made(LeakyQueue("queue", Per(1, time.Hour), 7))
	assert.Contains(t, detail(t, refuse(Decision{By: queue, Never: true})), "at most 7 at once", "no MaxDelay is known")
}

func TestRefuseWithoutStore(t *testing.T) {
	down := errors.New("down")
	closed, local := window("closed", 3), window("local", 3)
	closed.OnFailure, local.OnFailure = Closed, Local
	for name, d := range map[string]Decision{
		"closed":             {By: closed, Degraded: down},
		"nothing is known":   {Degraded: down},
		"of a Take's error":  {},
		"of a broken store":  {Each: []Decision{{}, {}}},
		"closed, and a part": {By: closed, Degraded: down, Each: []Decision{{By: local, Allowed: true}, {By: closed}}},
	} {
		w := refuse(d)
		assert.Equal(t, 503, w.Code, name)
		assert.Equal(t, http.Header{
			"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "Retry-After": {"1"},
		}, w.Header(), name)
		assert.Contains(t, detail(t, w), "The limits cannot be looked up at the moment", name)
	}
	w := refuse(Decision{By: local, Degraded: down, RetryAfter: time.Minute})
	assert.Equal(t, 429, w.Code, "this process has decided")
	assert.Equal(t, "60", w.Header().Get("Retry-After"))
	assert.NotContains(t, w.Header(), "Ratelimit")
}

func TestRefuseAllowed(t *testing.T) {
	l := window("w", 3)
	assert.PanicsWithValue(t, "limiter: Refuse: Decision.Allowed is true; only what is not allowed can be refused",
		func() { refuse(Decision{Allowed: true, By: l}) })
}

// Of two keys of one limit, the item and the text are of the one that refuses
// longest.
func TestRefuseKeysOfOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := window("w", 2), new(Memory)
		for _, key := range []string{"first", "second"} {
			_, err := store.Take(context.Background(), l.Charge(key, 2))
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
		}
		for _, keys := range [][]string{{"fresh", "second", "first"}, {"second", "first", "fresh"}} {
			var charges []Charge
			for _, key := range keys {
				charges = append(charges, l.Charge(key, 1))
			}
			d, err := store.Take(context.Background(), charges...)
			require.NoError(t, err)
			w := refuse(d)
			assert.Equal(t, []string{`"w";r=0;t=50`}, w.Header()["Ratelimit"])
			assert.Equal(t, []string{`"w";q=2;w=60`}, w.Header()["Ratelimit-Policy"])
			assert.Equal(t, "50", w.Header().Get("Retry-After"))
			assert.Contains(t, w.Body.String(), `"violated-policies":["w"],"limit":"w","quota":2,"remaining":0,"retry_after":50}`)
		}
		for _, d := range []Decision{ // of stores whose parts say less
			{By: l, Never: true, Each: []Decision{{By: l, RetryAfter: time.Hour}, {By: l, Never: true, Remaining: 1}}},
			{By: l, Never: true, Each: []Decision{{By: l, Never: true, Remaining: 1}, {By: l, Never: true, Remaining: 2}}},
		} {
			assert.Equal(t, []string{`"w";r=1;t=0`}, refuse(d).Header()["Ratelimit"])
		}
	})
}

func TestRefuseBehindGuard(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			guard := &Guard{Legacy: legacy, Rules: []Rule{{Key: Global, Limits: []*Limit{window("address", 100)}}}}
			h := guard.Handler(refusing(window("account", 1).Charge("k", 1)))
			w := ask(h, "POST", "/login")
			assert.Equal(t, 200, w.Code)
			assert.Equal(t, []string{`"address";r=99;t=60`}, w.Header()["Ratelimit"])
			w = ask(h, "POST", "/login")
			assert.Equal(t, 429, w.Code)
			assert.Equal(t, []string{`"address";r=98;t=60`, `"account";r=0;t=60`}, w.Header()["Ratelimit"])
			assert.Equal(t, []string{`"address";q=100;w=60`, `"account";q=1;w=60`}, w.Header()["Ratelimit-Policy"])
			assert.Equal(t, []string{"60"}, w.Header()["Retry-After"])
			if legacy {
				assert.Equal(t, []string{"1"}, w.Header()["X-Ratelimit-Limit"])
				assert.Equal(t, []string{"0"}, w.Header()["X-Ratelimit-Remaining"])
			} else {
				assert.NotContains(t, w.Header(), "X-Ratelimit-Remaining")
			}
		})
	}
}
