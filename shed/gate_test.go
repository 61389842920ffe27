package shed_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/shed"
)

// untouched is a body that nobody may read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, errors.New("read")
}

func (u untouched) Close() error {
	u.t.Error("the body is closed")
	return nil
}

func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := newHeld()
		g := &shed.Gate{Limit: 1, Queue: -1}
		h := g.Handler(inside)
		one := send(h, "/")

		r := httptest.NewRequest("POST", "/", untouched{t})
		w := httptest.NewRecorder()
		w.Header().Set("Etag", `"x"`)
		w.Header().Set("Cache-Control", "public")
		w.Header().Set("Vary", "Origin")
		h.ServeHTTP(w, r)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		wait := w.Header().Get("Retry-After")
		assert.Contains(t, []string{"1", "2"}, wait)
		assert.Equal(t, http.Header{
			"Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"},
			"Retry-After": {wait}, "Vary": {"Origin"}, "Connection": {"close"},
		}, w.Header(), "a body of unknown length: the connection ends")
		var said struct {
			Type, Title, Detail, Reason string
			Status                      int
			RetryAfter                  json.Number `json:"retry_after"`
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &said))
		assert.Equal(t, "about:blank", said.Type)
		assert.Equal(t, "Service Unavailable", said.Title)
		assert.Equal(t, 503, said.Status)
		assert.Equal(t, "full", said.Reason)
		assert.Equal(t, wait, said.RetryAfter.String())
		assert.Contains(t, said.Detail, "Try again in "+wait+" second")

		head := request("/")
		head.Method = http.MethodHead
		c := start(h, head)
		await(c)
		assert.Equal(t, http.StatusServiceUnavailable, c.Code)
		assert.Empty(t, c.Body.String())
		inside.let(1)
		await(one)
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, MaxWait: time.Second}
		h := g.Handler(work(100 * time.Millisecond))
		for range 20 { // so long it takes
			await(send(h, "/"))
		}
		for _, c := range []struct {
			told string
			code int
			took time.Duration
		}{
			{"50", 503, 0},                       // less than the work takes
			{"150", 503, 0},                      // and there is one before
			{"250", 200, 200 * time.Millisecond}, // enough
			{"0", 503, 0},
			{"", 200, 200 * time.Millisecond},
			{"-1", 200, 200 * time.Millisecond},
			{"1e3", 200, 200 * time.Millisecond},
			{"+50", 200, 200 * time.Millisecond},
			{"99999999999999999999", 200, 200 * time.Millisecond},
		} {
			one := send(h, "/")
			two := send(h, "/", "Request-Timeout-Ms", c.told)
			await(one, two)
			assert.Equal(t, c.code, two.Code, "%q", c.told)
			assert.Equal(t, c.took, two.took, "%q", c.told)
			if c.code == 503 {
				assert.Contains(t, two.Body.String(), `"reason":"would-miss"`)
			}
		}
		repeated := []*call{send(h, "/"), send(h, "/", "Request-Timeout-Ms", "50", "Request-Timeout-Ms", "5000")}
		await(repeated...)
		assert.Equal(t, 2, served(repeated...), "nobody knows which of the two to believe")
	})
}

// Who may wait for a shorter time than another who came before is told on time.
func TestShorterDeadlineComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := newHeld()
		h := (&shed.Gate{Limit: 1}).Handler(inside)
		one, two, three := send(h, "/"), send(h, "/"), send(h, "/", "Request-Timeout-Ms", "50")
		await(three, two)
		assert.Equal(t, 50*time.Millisecond, three.took)
		assert.Equal(t, 200*time.Millisecond, two.took)
		inside.let(1)
		await(one)
	})
}

// What was broken off says nothing about how long requests take.
func TestBrokenOffIsNotMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1}
		h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/broken" {
				panic("at once")
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-r.Context().Done():
			}
		}))
		for range 20 {
			await(send(h, "/"))
		}
		for range 1000 {
			await(send(h, "/broken"))
			gone := send(h, "/")
			gone.leave()
			await(gone)
		}
		one, two := send(h, "/"), send(h, "/", "Request-Timeout-Ms", "150")
		await(two)
		assert.Equal(t, http.StatusServiceUnavailable, two.Code, "100 ms until its turn, and 100 ms of work")
		assert.Zero(t, two.took)
		await(one)
	})
}

func TestHeaderNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			set, sent string
			read      bool
		}{
			{"", "Request-Timeout-Ms", true},
			{"x-left", "X-Left", true},
			{"x-left", "Request-Timeout-Ms", false},
			{"-", "Request-Timeout-Ms", false},
			{"-", "-", false},
		} {
			h := (&shed.Gate{Limit: 1, DeadlineHeader: c.set}).Handler(work(0))
			one := send(h, "/", c.sent, "0")
			await(one)
			assert.Equal(t, c.read, one.Code == 503, "%v", c)
		}
	})
}

func TestRetriesYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, yield := range []bool{true, false} {
			var told events
			g := &shed.Gate{Limit: 1, RetriesYield: yield, Hooks: &shed.Hooks{Admitted: told.note}}
			h := g.Handler(work(time.Millisecond))
			all := []*call{send(h, "/"), send(h, "/", "Request-Attempt", "3"), send(h, "/", "Request-Attempt", "1")}
			await(all...)
			got := told.all
			require.Len(t, got, 3)
			order := []int{got[0].Attempt, got[1].Attempt, got[2].Attempt}
			if yield {
				assert.Equal(t, []int{1, 1, 3}, order)
				assert.Equal(t, shed.SheddablePlus, got[2].Class)
			} else {
				assert.Equal(t, []int{1, 3, 1}, order)
			}
			assert.Equal(t, []time.Duration{0, time.Millisecond, 2 * time.Millisecond}, []time.Duration{got[0].Waited, got[1].Waited, got[2].Waited})
		}
	})
}

func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			order shed.Order
			first string // of those that wait
			out   string // when the queue is full
		}{
			{shed.Wine, "/1", "/3"},
			{shed.Milk, "/3", "/1"},
		} {
			var told events
			g := &shed.Gate{Limit: 1, Queue: 2, Order: c.order, Hooks: &shed.Hooks{Admitted: told.note}}
			h := g.Handler(work(time.Millisecond))
			all := []*call{send(h, "/0"), send(h, "/1"), send(h, "/2"), send(h, "/3")}
			await(all...)
			var entered []string
			for _, e := range told.all {
				entered = append(entered, e.Request.URL.Path)
			}
			require.Len(t, entered, 3)
			assert.Equal(t, c.first, entered[1])
			assert.NotContains(t, entered, c.out)
			assert.Equal(t, 3, served(all...))
		}
	})
}

func TestLongLivedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := newHeld()
		g := &shed.Gate{Limit: 1, MaxLongLived: 2}
		h := g.Handler(inside)
		all := startAll(h, 3, "/", "Accept", "text/event-stream")
		assert.Equal(t, 2, g.Stats().LongLived)
		inside.let(2)
		await(all...)
		assert.Equal(t, 2, served(all...))

		g = &shed.Gate{Limit: 1, Queue: -1}
		for _, c := range []struct {
			field, value string
			lasts        int
		}{
			{"Upgrade", "websocket", 1},
			{"Upgrade", "h2c", 0}, // of an ordinary request
			{"Upgrade", "H2C", 0},
			{"Upgrade-Insecure-Requests", "1", 0},
			{"Accept", "text/event-stream", 1},
			{"Accept", "application/json, text/event-stream", 0},
			{"Accept", "*/*", 0},
		} {
			one := send(g.Handler(inside), "/", c.field, c.value)
			assert.Equal(t, c.lasts, g.Stats().LongLived, "%v", c)
			assert.Equal(t, 1-c.lasts, g.Stats().InFlight, "%v", c)
			inside.let(1)
			await(one)
		}

		g = &shed.Gate{Limit: 1, Queue: -1, LongLived: func(r *http.Request) bool { return r.URL.Path == "/events" }}
		h = g.Handler(inside)
		all = []*call{send(h, "/events"), send(h, "/"), send(h, "/", "Upgrade", "x")}
		await(all[2])
		assert.Equal(t, http.StatusServiceUnavailable, all[2].Code, "who asks for an upgrade where there is none")
		inside.let(2)
		await(all...)
	})
}

func TestUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := newHeld()
		g := &shed.Gate{Limit: -1}
		all := startAll(g.Handler(inside), 500, "/")
		assert.Equal(t, shed.Stats{Limit: -1, InFlight: 500, Admitted: 500, Refused: map[shed.Reason]int64{}}, g.Stats())
		inside.let(500)
		await(all...)
	})
}

func TestSetLimitReachesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := newHeld()
		g := &shed.Gate{Limit: 1, MaxWait: -1}
		h := g.Handler(inside)
		all := startAll(h, 10, "/")
		assert.EqualValues(t, 1, inside.inside.Load())
		g.SetLimit(4)
		synctest.Wait()
		assert.EqualValues(t, 4, inside.inside.Load())
		g.SetLimit(2)
		inside.let(2)
		assert.EqualValues(t, 2, inside.inside.Load())
		g.SetLimit(-1)
		inside.let(8)
		await(all...)
		assert.Equal(t, 10, served(all...))
	})
}

func TestAdaptiveStandsStillWhileAnotherIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Adaptive: &shed.Adaptive{Initial: 20, Min: 4}}
		h := g.Handler(work(10 * time.Millisecond))
		g.SetLimit(3)
		for range 200 {
			await(startAll(h, 9, "/")...)
			require.Equal(t, 3, g.Stats().Limit)
		}
		g.SetLimit(-1)
		assert.Equal(t, 20, g.Stats().Limit)
	})
}

func TestHandlersShareTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := newHeld()
		g := &shed.Gate{Limit: 1, Queue: -1}
		one, two := send(g.Handler(inside), "/"), send(g.Handler(inside), "/")
		await(two)
		assert.Equal(t, http.StatusServiceUnavailable, two.Code)
		inside.let(1)
		await(one)
	})
}

func TestCheck(t *testing.T) {
	tenant := byHeader("T")
	for _, c := range []struct {
		gate *shed.Gate
		want string
	}{
		{&shed.Gate{}, ""},
		{&shed.Gate{Limit: 5, Queue: -1, MaxWait: -1, MaxTenants: -1, MaxLongLived: -1, Order: shed.Milk, HealthPaths: []string{}}, ""},
		{&shed.Gate{Limit: 1, Adaptive: &shed.Adaptive{}}, "shed: Gate.Limit is 1 and Adaptive is set; a gate has one of them"},
		{&shed.Gate{Limit: 1 << 40}, "shed: Gate.Limit is 1099511627776; allowed is up to 2147483646, and negative for any number"},
		{&shed.Gate{Order: 2}, "shed: Gate.Order is 2; allowed are Wine and Milk"},
		{&shed.Gate{Known: yes}, "shed: Gate.Known is set and Tenant is nil; Known is about what Tenant returns"},
		{&shed.Gate{Weight: func(*http.Request) int { return 1 }}, "shed: Gate.Weight is set and Tenant is nil; Weight is about what Tenant returns"},
		{&shed.Gate{Tenant: tenant, Known: yes}, ""},
		{&shed.Gate{AttemptHeader: "No Name"}, `shed: Gate.AttemptHeader is "No Name"; allowed are the name of a header field, empty for the usual one, and "-" for none`},
		{&shed.Gate{HealthPaths: []string{"/ok", "live"}}, `shed: Gate.HealthPaths[1] is "live"; a path begins with a slash`},
		{&shed.Gate{Adaptive: &shed.Adaptive{Min: -1}}, "shed: Gate.Adaptive is {Min: -1, Max: 0, Initial: 0}; none may be negative"},
		{&shed.Gate{Adaptive: &shed.Adaptive{Min: 30, Max: 20}}, "shed: Gate.Adaptive.Min is 30 and Max is 20; Min is at most Max"},
		{&shed.Gate{Adaptive: &shed.Adaptive{Min: 30, Initial: 20}}, "shed: Gate.Adaptive.Initial is 20; allowed is from Min, 30, to Max, 1000"},
		{&shed.Gate{Adaptive: &shed.Adaptive{Max: 1}}, ""},
		{&shed.Gate{Adaptive: &shed.Adaptive{Min: 2000, Max: 3000}}, ""},
	} {
		err := c.gate.Check()
		if c.want == "" {
			assert.NoError(t, err)
			c.gate.Handler(work(0))
			continue
		}
		assert.EqualError(t, err, c.want)
		assert.PanicsWithError(t, c.want, func() { c.gate.Handler(work(0)) })
	}
	assert.Panics(t, func() { new(shed.Gate).Handler(nil) })
	assert.False(t, strings.Contains(shed.Class(-9).String(), "%"))
}

func TestOverShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := newHeld()
		g := &shed.Gate{Limit: 1, Queue: 10, MaxWait: -1, Tenant: byHeader("Tenant")}
		h := g.Handler(inside)
		all := []*call{send(h, "/")}
		status := func(n int, tenant string) (codes []int) { // of those that are refused now
			more := startAll(h, n, "/", "Tenant", tenant)
			for i := range all {
				if all[i].isOver() {
					codes = append(codes, all[i].Code)
				}
			}
			all = slices.DeleteFunc(append(all, more...), (*call).isOver)
			for _, c := range more {
				if c.isOver() {
					codes = append(codes, c.Code)
				}
			}
			slices.Sort(codes)
			return codes
		}
		assert.Equal(t, []int{503, 503}, status(12, "hog"), "there is nobody else")
		assert.Equal(t, []int{429, 429}, status(2, "small"), "two of the hog's")
		assert.Equal(t, []int{429}, status(1, "hog"))
		assert.Equal(t, []int{429, 429, 503}, status(3, "small"), "the last one makes them equal")
		assert.Equal(t, []int{503, 503}, append(status(1, "small"), status(1, "hog")...), "five each")
		assert.Equal(t, []int{429}, status(1, ""), "now a third is enough")
		inside.let(11)
		await(all...)

		all = []*call{send(h, "/")}
		assert.Equal(t, []int{503, 503}, status(12, ""))
		assert.Equal(t, []int{503, 503}, status(2, "small"), "nobody in particular has no share to be over")
		inside.let(11)
		await(all...)
	})
}

func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told events
		g := &shed.Gate{
			Limit: 1, Queue: 10, MaxWait: -1, Tenant: byHeader("Tenant"), Hooks: &shed.Hooks{Refused: told.note},
			Weight: func(r *http.Request) int { return len(r.Header.Get("Tenant")) },
		}
		h := g.Handler(work(time.Second))
		all := append(startAll(h, 11, "/", "Tenant", "aaaa"), startAll(h, 10, "/", "Tenant", "b")...)
		await(all...)
		count := map[string]int{}
		for _, e := range told.all {
			count[fmt.Sprint(e.Tenant, e.Status)]++
		}
		assert.Equal(t, map[string]int{"aaaa429": 1, "aaaa503": 1, "b503": 8}, count, "eight and two are four to one")
	})
}
