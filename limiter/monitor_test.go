package limiter

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func monitored(l *Limit, err error) *Limit {
	if err != nil {
		panic(err)
	}
	return l
}

// decided makes the event of one charge: admitted with so many units left, or
// refused.
func decided(l *Limit, key string, cost, left int64, allowed bool) Event {
	return Event{
		Limit: l, Key: key, Cost: cost, Charges: []Charge{l.Charge(key, cost)},
		Decision: Decision{Allowed: allowed, By: l, Quota: l.Quota(), Remaining: left},
	}
}

// lookAt is what a GET of the Monitor answers.
func lookAt(t *testing.T, m *Monitor) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, 200, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, fmt.Sprint(w.Body.Len()), w.Header().Get("Content-Length"))
	var got map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	return got
}

// The whole answer, name by name.
func TestMonitorAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Monitor{TopKeys: 2, Windows: 2}
		h := m.Hooks()
		perUser := monitored(FixedWindow("per-user", 10, 10*time.Second, ToClock))
		all := monitored(TokenBucket("all", Per(100, time.Second), 50))
		for left := int64(9); left >= 0; left-- { // 9 8 7 6 5 4 3 2 | 1 0: two of ten are near the limit
			h.Admitted(decided(perUser, "user|ann", 1, left, true))
		}
		h.Refused(decided(perUser, "user|ann", 3, 0, false))
		time.Sleep(15 * time.Second)
		h.Refused(decided(perUser, "user|ann", 1, 0, false))
		h.Refused(decided(perUser, "user|bob", 2, 0, false))
		time.Sleep(10 * time.Second)

		// A stack: one refuses, and the other one, which was not charged, does not.
		e := decided(perUser, "user|ann", 5, 0, false)
		e.Charges = append(e.Charges, all.Charge("global", 5))
		e.Decision.Each = []Decision{{By: perUser, Quota: 10}, {Allowed: true, By: all, Quota: 50, Remaining: 50}}
		h.Refused(e)
		// A stack admitted: the tightest decides for the request, and each for itself.
		e.Decision = Decision{Allowed: true, By: perUser, Quota: 10, Remaining: 1}
		e.Decision.Each = []Decision{{Allowed: true, By: perUser, Quota: 10, Remaining: 1}, {Allowed: true, By: all, Quota: 50, Remaining: 45}}
		h.Admitted(e)
		// More than the limit ever admits is refused, and not in excess.
		e = decided(all, "global", math.MaxInt64, 50, false)
		e.Decision.Never = true
		h.Refused(e)
		// On trial: apart.
		e = decided(all, "global", 7, 0, false)
		e.DryRun = true
		h.Refused(e)
		// Without a store: counted, and no more.
		e = decided(all, "global", 7, 0, false)
		e.Decision.Degraded = errors.New("down")
		h.Degraded(e)
		h.Refused(e)
		h.Overflowed(decided(all, "global", 1, 0, true))

		want := `{
  "since": "2000-01-01T00:00:00Z",
  "seconds": 25,
  "near_below": 0.2,
  "requests": {
    "admitted": 11, "refused": 6, "refused_share": 0.35294117647058826, "near_limit": 3, "near_share": 0.2727272727272727,
    "degraded": 1, "overflowed": 1
  },
  "dry_run": {"admitted": 0, "refused": 1, "refused_share": 1, "near_limit": 0, "near_share": 0, "degraded": 0, "overflowed": 0},
  "limits": [
    {
      "name": "per-user", "rule": "fixed_window", "quota": 10, "dry_run": false,
      "admitted": 11, "near_limit": 3, "near_share": 0.2727272727272727, "refused": 4,
      "admitted_units": 15, "refused_units": 11, "never": 0, "window_seconds": 10,
      "windows": [
        {"start": "2000-01-01T00:00:10Z", "refused_units": 3},
        {"start": "2000-01-01T00:00:20Z", "refused_units": 5}
      ]
    },
    {
      "name": "all", "rule": "token_bucket", "quota": 50, "dry_run": true,
      "admitted": 0, "near_limit": 0, "near_share": 0, "refused": 1,
      "admitted_units": 0, "refused_units": 7, "never": 0, "window_seconds": 1,
      "windows": [{"start": "2000-01-01T00:00:25Z", "refused_units": 7}]
    },
    {
      "name": "all", "rule": "token_bucket", "quota": 50, "dry_run": false,
      "admitted": 1, "near_limit": 0, "near_share": 0, "refused": 1,
      "admitted_units": 5, "refused_units": 0, "never": 1, "window_seconds": 1,
      "windows": []
    }
  ],
  "top_refused": {
    "since": "2000-01-01T00:00:00Z", "until": null, "refusals": 6, "max_error": 3,
    "keys": [
      {"key": "user|ann", "limit": "per-user", "dry_run": false, "refused": 3, "error": 0},
      {"key": "global", "limit": "all", "dry_run": true, "refused": 3, "error": 2}
    ]
  },
  "top_refused_before": null,
  "store": null
}`
		got, err := json.Marshal(lookAt(t, m))
		require.NoError(t, err)
		assert.JSONEq(t, want, string(got))
	})
}

// The list of the most refused begins anew after its span, and the last
// complete one is kept.
func TestMonitorTopSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Monitor{TopSpan: time.Minute}
		l := monitored(FixedWindow("l", 1, time.Second, ToClock))
		refuse := func(key string) { m.Hooks().Refused(decided(l, key, 1, 0, false)) }
		show := func() string {
			got := lookAt(t, m)
			text := ""
			for _, list := range []string{"top_refused_before", "top_refused"} {
				text += "/"
				if top, ok := got[list].(map[string]any); ok {
					text += fmt.Sprint(top["since"], " ", top["until"])
					for _, k := range top["keys"].([]any) {
						text += " " + k.(map[string]any)["key"].(string)
					}
				}
			}
			return strings.ReplaceAll(text, "2000-01-01T", "")
		}
		assert.Equal(t, "//", show())
		time.Sleep(time.Second)
		refuse("a")
		time.Sleep(time.Minute - 1)
		refuse("b")
		assert.Equal(t, "//00:00:01Z <nil> a b", show())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, "/00:00:01Z 00:01:01Z a b/", show())
		time.Sleep(9 * time.Second)
		refuse("c")
		assert.Equal(t, "/00:00:01Z 00:01:01Z a b/00:01:10Z <nil> c", show())
		time.Sleep(time.Hour)
		refuse("d")
		assert.Equal(t, "/00:01:10Z 00:02:10Z c/01:01:10Z <nil> d", show())
	})
}

// The windows in which excess is measured.
func TestMonitorWindows(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, c := range []struct {
		limit      *Limit
		now, start string
		seconds    float64
	}{
		{monitored(FixedWindow("l", 1, time.Minute, ToFirst)), "2026-03-29T10:20:30.5Z", "2026-03-29T10:20:00Z", 60},
		{monitored(SlidingLog("l", 1, time.Minute)), "1969-12-31T23:59:30Z", "1969-12-31T23:59:00Z", 60},
		{monitored(TokenBucket("l", Per(1, time.Second), 90)), "2026-03-29T10:20:30Z", "2026-03-29T10:19:30Z", 90},
		{monitored(TokenBucket("l", Per(1000, time.Second), 1)), "2026-03-29T10:20:30.999Z", "2026-03-29T10:20:30Z", 1},
		{monitored(Quota("l", 1, Day, nil)), "2026-03-29T23:30:00Z", "2026-03-29T00:00:00Z", 86400},
		{monitored(Quota("l", 1, Day, berlin)), "2026-03-29T22:30:00Z", "2026-03-30T00:00:00+02:00", 86400},
		{monitored(Quota("l", 1, Month, berlin)), "2026-03-31T22:30:00Z", "2026-04-01T00:00:00+02:00", 0},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		require.NoError(t, err)
		id := identify(c.limit)
		assert.Equal(t, c.start, id.windowAt(now).Format(time.RFC3339), "%s %v", c.limit.Kind(), c.limit.Window())
		assert.Equal(t, c.seconds, id.window.Seconds())
	}
}

func TestTally(t *testing.T) {
	var c tally
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for _, step := range []struct{ window, cost int64 }{{1, 1}, {2, 2}, {2, 2}, {5, math.MaxInt64}, {5, 7}, {4, 1}, {6, 1}} {
		c.refuse(step.cost, false, at(step.window), 3)
	}
	c.refuse(9, true, at(9), 3)
	assert.Equal(t, []windowCount{{at(2), 4}, {at(5), math.MaxInt64}, {at(6), 1}}, c.windows)
	assert.EqualValues(t, math.MaxInt64, c.refusedUnits)
	assert.EqualValues(t, 8, c.refused)
	assert.EqualValues(t, 1, c.never)

	var none tally
	none.refuse(1, false, at(1), 0)
	assert.Empty(t, none.windows)
	assert.EqualValues(t, 1, none.refusedUnits)
}

// Whatever comes, the memory is bounded: limits that are made for each request,
// keys without end, long keys.
func TestMonitorIsBounded(t *testing.T) {
	m := &Monitor{MaxLimits: 8, TopKeys: 16}
	h := m.Hooks()
	long := strings.Repeat("x", 1<<12)
	for i := range 1000 {
		l := monitored(FixedWindow(fmt.Sprint("limit ", i), 1, time.Second, ToClock))
		h.Admitted(decided(l, long, 1, 0, true))
		h.Refused(decided(l, long[i:], 1, 0, false))
	}
	pointers := 0
	m.pointers.Range(func(any, any) bool { pointers++; return true })
	assert.LessOrEqual(t, pointers, 4*8)
	assert.Len(t, m.limits, 8)
	assert.Len(t, m.top.now.count, 16)
	assert.Len(t, m.top.now.slots, 16)
	for k := range m.top.now.slots {
		assert.LessOrEqual(t, len(k.key), maxKey)
	}
	limits := lookAt(t, m)["limits"].([]any)
	require.Len(t, limits, 9)
	other := limits[0].(map[string]any)
	assert.Equal(t, "other", other["name"])
	assert.EqualValues(t, 992, other["refused"])
	assert.EqualValues(t, 60, other["window_seconds"])

	off := &Monitor{TopKeys: -1, Windows: -1, NearBelow: -1}
	l := monitored(FixedWindow("l", 1, time.Second, ToClock))
	off.Hooks().Admitted(decided(l, "k", 1, 0, true))
	off.Hooks().Refused(decided(l, "k", 1, 0, false))
	got := lookAt(t, off)
	assert.Nil(t, got["top_refused"])
	assert.Empty(t, got["limits"].([]any)[0].(map[string]any)["windows"])
	assert.EqualValues(t, 0, got["requests"].(map[string]any)["near_limit"])
}

// Two limits of one name and other numbers are two, and one that is made again
// is the same.
func TestMonitorTellsLimitsApart(t *testing.T) {
	m := &Monitor{}
	for range 3 {
		m.Hooks().Admitted(decided(monitored(FixedWindow("l", 5, time.Second, ToClock)), "k", 1, 3, true))
		m.Hooks().Admitted(decided(monitored(FixedWindow("l", 6, time.Second, ToClock)), "k", 1, 3, true))
	}
	limits := lookAt(t, m)["limits"].([]any)
	require.Len(t, limits, 2)
	for i, quota := range []float64{5, 6} {
		assert.Equal(t, quota, limits[i].(map[string]any)["quota"])
		assert.EqualValues(t, 3, limits[i].(map[string]any)["admitted"])
	}
}

// No count is lost among many goroutines that also read.
func TestMonitorConcurrently(t *testing.T) {
	m := &Monitor{TopKeys: 8, TopSpan: -1}
	l := monitored(FixedWindow("l", 10, time.Second, ToClock))
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			h := m.Hooks()
			for i := range 200 {
				h.Admitted(decided(l, "k", 2, int64(i%10), true))
				h.Refused(decided(l, fmt.Sprint("k", i%(g+1)), 3, 0, false))
				if i == 100 {
					lookAt(t, m)
				}
			}
		})
	}
	wg.Wait()
	got := lookAt(t, m)
	limit := got["limits"].([]any)[0].(map[string]any)
	assert.EqualValues(t, 3200, limit["admitted"])
	assert.EqualValues(t, 640, limit["near_limit"])
	assert.EqualValues(t, 6400, limit["admitted_units"])
	assert.EqualValues(t, 9600, limit["refused_units"])
	assert.EqualValues(t, 3200, got["top_refused"].(map[string]any)["refusals"])
}

func TestMonitorAnswersGetOnly(t *testing.T) {
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		(&Monitor{}).ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		assert.Equal(t, want, w.Code, method)
	}
}

func TestHooksBoth(t *testing.T) {
	var log []string
	note := func(s string) func(Event) { return func(Event) { log = append(log, s) } }
	a := &Hooks{Admitted: note("a"), Refused: note("ar")}
	b := &Hooks{Admitted: note("b"), Degraded: note("bd")}
	both := a.Both(b)
	both.Admitted(Event{})
	both.Refused(Event{})
	both.Degraded(Event{})
	assert.Equal(t, []string{"a", "b", "ar", "bd"}, log)
	assert.Nil(t, both.Overflowed)
	assert.Same(t, a, a.Both(nil))
	assert.Same(t, a, (*Hooks)(nil).Both(a))
}

// What telling a hook costs: an event by value is no allocation.
func BenchmarkHooks(b *testing.B) {
	l := monitored(FixedWindow("l", 10, time.Second, ToClock))
	e := decided(l, "address|203.0.113.7", 1, 5, true)
	e.Request = &http.Request{}
	e.Decision.Each = []Decision{e.Decision}
	stack := e
	stack.Charges = []Charge{e.Charges[0], e.Charges[0], e.Charges[0]}
	stack.Decision.Each = []Decision{e.Decision, e.Decision, e.Decision}
	m := &Monitor{}
	h := m.Hooks()
	keys := make([]string, 1<<12)
	for i := range keys {
		keys[i] = fmt.Sprint("address|203.0.113.", i)
	}
	tell := func(h *Hooks, e *Event) {
		if h != nil && h.Admitted != nil {
			h.Admitted(*e)
		}
	}
	for _, c := range []struct {
		name string
		f    func(i int)
	}{
		{"nil", func(int) { tell(nil, &e) }},
		{"empty", func(int) { tell(&Hooks{}, &e) }},
		{"idle", func(int) { tell(idleHooks, &e) }},
		{"admitted", func(int) { h.Admitted(e) }},
		{"admitted of three", func(int) { h.Admitted(stack) }},
		{"refused", func(int) { h.Refused(e) }},
		{"refused, keys without end", func(i int) { e := e; e.Key = keys[i&(1<<12-1)]; e.Charges = nil; e.Decision.Each = nil; h.Refused(e) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.f(i)
			}
		})
	}
	b.Run("admitted by 64", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				h.Admitted(e)
			}
		})
	})
	b.Run("refused by 64", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				h.Refused(e)
			}
		})
	})
}

// idleHooks has a hook that the compiler cannot see through.
var idleHooks = &Hooks{Admitted: func(e Event) { hookSink = e.Cost }}

var hookSink int64
