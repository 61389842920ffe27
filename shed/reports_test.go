package shed_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/shed"
)

// report is a fault that users of other limiters of concurrency reported, or
// that one of these has.
type report struct {
	name      string
	test      func(*testing.T) // in a bubble of its own
	elsewhere string           // instead: the test of another package
}

var reports = []report{
	{name: "Netflix/concurrency-limits#234, camunda#26408: 200 at limit 10, through partitions", test: neverOverLimit},
	{name: "Netflix/concurrency-limits#176: instant refusals of a callee are no sign of room", test: instantRefusals},
	{name: "Netflix/concurrency-limits#155 PR#174: at its maximum the limit is not halved", test: atTheMaximum},
	{name: "Netflix/concurrency-limits#35, vectordotdev/vector#3255: from 20 to 400 in seconds", test: roomIsFound},
	{name: "failsafe-go/failsafe-go#127: 30 slow minutes are not the new normal", test: longIncident},
	{name: "oumi-ai/oumi#2508: the limit recovers under 0.5 % of errors", test: residualErrors},
	{name: "envoyproxy/envoy#38338 #46532: looking for the baseline sheds nothing below 80 % of load", test: probingIsFree},
	{name: "envoyproxy/envoy#8337: processes do not look for it at the same time", test: probesApart},
	{name: "palantir/conjure-java-runtime#1192, dialogue#453, infinigence/octollm#41: the slot to the end, the time to the answer", test: slotToTheEnd},
	{name: "integrations/terraform-provider-github#3605: a caller that forgets Close", elsewhere: "polite: TestOverloadReports, by the same name"},
	{name: "openshift/origin#12846, Quarkus load shedding: alive at the limit", test: aliveAtTheLimit},
	{name: "quarkusio/quarkus#40142: event streams and WebSockets hold no slot and spoil no figure", test: streams},
	{name: "zeromicro/go-zero#4265, go-kratos/kratos#59: what is short need not be the processor", test: lockBound},
	{name: "SlimPlanet/SlimFaas#344: recovery needs no request to come", test: recoveryByTime},
	{name: "kubernetes/kubernetes#117734 #79805 #97991: Retry-After grows, decays and is spread", test: retryAfterFollows},
	{name: "kubernetes/kubernetes#134196: 0 is 0, also when idle", test: zeroIsZero},
	{name: "kubernetes/website#46769: a sub-call does not wait behind its parent", test: subCalls},
	{name: "Doist/todoist-mcp#598: a full table of tenants lets an idle one go", test: idleTenantGoes},

	{name: "sony/gobreaker: Goexit in a probe", elsewhere: "breaker: TestReports/sony/gobreaker: Goexit in a probe"},
	{name: "failsafe-go: one call that its caller cancels opens the breaker", elsewhere: "polite: TestOverloadReports/failsafe-go v0.9.8: one call that its caller cancels opens nothing"},
	{name: "failsafe-go: who waits is not noticed to leave", test: leavesWhileWaiting},
	{name: "failsafe-go: the level of the header is lost", test: headerCounts},
	{name: "failsafe-go, platinummonkey/go-concurrency-limits: a panic keeps its permit", test: func(t *testing.T) { slotComesBack(t, func() { panic("handler") }) }},
	{name: "sony/gobreaker, of a server: Goexit keeps its permit", test: func(t *testing.T) { slotComesBack(t, runtime.Goexit) }},
	{name: "failsafe-go: level 99999", test: levelsBeyond},
	{name: "failsafe-go: 2,000 new names make one forget a hog", test: hogIsRemembered},
	{name: "go-kratos/aegis: nobody may enter a cold house", test: coldHouse},
}

// TestReports has a test for each report that concerns a server, and says where
// the others are tested.
func TestReports(t *testing.T) {
	require.Len(t, reports, 27)
	names, here := map[string]bool{}, 0
	for _, r := range reports {
		require.False(t, names[r.name], r.name)
		names[r.name] = true
		require.NotEqual(t, r.test == nil, r.elsewhere == "", r.name)
		t.Run(r.name, func(t *testing.T) {
			if r.test == nil {
				t.Skip("is tested in " + r.elsewhere)
			}
			synctest.Test(t, r.test)
		})
		if r.test != nil {
			here++
		}
	}
	require.Equal(t, 24, here)
}

func neverOverLimit(t *testing.T) {
	inside := newHeld()
	g := &shed.Gate{Limit: 10, Queue: 200, MaxWait: -1, Tenant: byHeader("Tenant")}
	h := g.Handler(inside)
	var all []*call
	for i := range 200 {
		all = append(all, start(h, request("/", "Tenant", strconv.Itoa(i%7))))
	}
	inside.let(200)
	await(all...)
	assert.Equal(t, 200, served(all...))
	assert.EqualValues(t, 10, inside.most.Load())
	assert.Zero(t, g.Stats().InFlight)
}

func aliveAtTheLimit(t *testing.T) {
	inside := newHeld()
	mux := http.NewServeMux()
	mux.Handle("/", inside)
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/admin", func(http.ResponseWriter, *http.Request) {})
	g := &shed.Gate{Limit: 1, Queue: -1, Exempt: func(r *http.Request) bool { return r.URL.Path == "/admin" }}
	h := g.Handler(mux)
	one := send(h, "/")
	assert.Equal(t, http.StatusServiceUnavailable, send(h, "/").Code)
	for range 100 {
		require.Equal(t, http.StatusOK, send(h, "/healthz").Code)
		require.Equal(t, http.StatusOK, send(h, "/admin").Code)
	}
	post := request("/healthz")
	post.Method = http.MethodPost
	refused := start(h, post)
	await(refused)
	assert.Equal(t, http.StatusServiceUnavailable, refused.Code, "it is by GET that tools look")
	inside.let(1)
	await(one)
}

func streams(t *testing.T) {
	inside := newHeld()
	mux := http.NewServeMux()
	mux.Handle("/events", inside)
	mux.Handle("/", work(10*time.Millisecond))
	g := &shed.Gate{Limit: 1, Queue: -1}
	h := g.Handler(mux)
	for range 20 { // the Gate knows how long requests take
		c := send(h, "/")
		await(c)
		require.Equal(t, 10*time.Millisecond, c.took)
	}
	var open []*call
	for range 10 {
		open = append(open, send(h, "/events", "Accept", "text/event-stream"), send(h, "/events", "Connection", "Upgrade", "Upgrade", "websocket"))
	}
	assert.Equal(t, 20, g.Stats().LongLived)
	assert.Zero(t, g.Stats().InFlight)
	time.Sleep(time.Hour)
	inside.let(20)
	await(open...)
	one := send(h, "/") // an hour's stream would make 20 ms look too little
	two := send(h, "/", "Request-Timeout-Ms", "20")
	await(one, two)
	assert.Equal(t, 1, served(one, two), "the only slot is taken")
	two = send(h, "/", "Request-Timeout-Ms", "20")
	await(two)
	assert.Equal(t, http.StatusOK, two.Code)
	assert.Zero(t, g.Stats().LongLived)
}

func recoveryByTime(t *testing.T) {
	inside := newHeld()
	g := &shed.Gate{Limit: 1, Queue: 5, MaxWait: 100 * time.Millisecond}
	h := g.Handler(inside)
	one := send(h, "/")
	waiting := startAll(h, 5, "/")
	await(waiting...)
	for _, c := range waiting { // nobody came or went meanwhile
		assert.Equal(t, 100*time.Millisecond, c.took)
		assert.Contains(t, c.Body.String(), `"reason":"waited"`)
	}
	for range 20 {
		await(startAll(h, 100, "/")...)
		time.Sleep(time.Second)
	}
	assert.GreaterOrEqual(t, worstRetryAfter(t, startAll(h, 100, "/")), 16)
	time.Sleep(time.Minute)
	assert.LessOrEqual(t, worstRetryAfter(t, startAll(h, 2, "/")), 2)
	inside.let(1)
	await(one)
}

// worstRetryAfter is the longest that refused calls were told.
func worstRetryAfter(t *testing.T, all []*call) int { return slices.Max(toldToWait(t, all)) }

func toldToWait(t *testing.T, all []*call) []int {
	var told []int
	await(all...)
	for _, c := range all {
		require.Equal(t, http.StatusServiceUnavailable, c.Code)
		n, err := strconv.Atoi(c.Header().Get("Retry-After"))
		require.NoError(t, err)
		told = append(told, n)
	}
	return told
}

func retryAfterFollows(t *testing.T) {
	inside := newHeld()
	h := (&shed.Gate{Limit: 1, Queue: -1}).Handler(inside)
	one := send(h, "/")
	var worst []int
	most := 0
	for range 60 {
		told := toldToWait(t, startAll(h, 100, "/"))
		slices.Sort(told)
		worst = append(worst, told[99])
		assert.GreaterOrEqual(t, told[0], 1)
		assert.LessOrEqual(t, told[99], 32)
		assert.Greater(t, told[99], most*3/4, "it falls")
		most = max(most, told[99])
		if len(worst) > 1 {
			assert.NotEqual(t, told[0], told[99], "all are to come back together")
		}
		time.Sleep(time.Second)
	}
	assert.Equal(t, []int{2, 4}, worst[:2])
	assert.GreaterOrEqual(t, worst[59], 28)
	var calm []int
	for range 40 { // one a minute is refused
		time.Sleep(time.Minute)
		calm = append(calm, worstRetryAfter(t, startAll(h, 1, "/")))
	}
	assert.LessOrEqual(t, slices.Max(calm), 2)
	inside.let(1)
	await(one)
}

func zeroIsZero(t *testing.T) {
	calls := 0
	g := &shed.Gate{Limit: 5}
	h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	g.SetLimit(0)
	for range 10 {
		c := send(h, "/")
		require.Equal(t, http.StatusServiceUnavailable, c.Code)
		require.Zero(t, c.took)
		require.Contains(t, c.Body.String(), `"reason":"shut"`)
		time.Sleep(time.Hour)
	}
	assert.Zero(t, calls)
	for range 30 {
		toldToWait(t, startAll(h, 20, "/"))
		time.Sleep(time.Second)
	}
	assert.GreaterOrEqual(t, worstRetryAfter(t, startAll(h, 100, "/")), 28, "all of them stay away")
	producer, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := g.Wait(producer)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	g.SetLimit(-1)
	assert.Equal(t, 5, g.Stats().Limit)
	assert.Equal(t, http.StatusOK, send(h, "/").Code)
	assert.Equal(t, 1, calls)
}

func subCalls(t *testing.T) {
	g := &shed.Gate{Limit: 2, Priority: func(*http.Request) shed.Class { return shed.Sheddable }}
	inner := g.Handler(work(time.Millisecond))
	var parents []*call
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Second) // until all are inside or wait
		sub, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		release, err := g.Wait(sub)
		if assert.NoError(t, err) {
			release()
		}
		inner.ServeHTTP(w, r.WithContext(sub))
	}))
	for range 4 {
		parents = append(parents, start(h, httptest.NewRequest("GET", "/", nil)))
	}
	await(parents...)
	for _, c := range parents {
		if c.Code == http.StatusOK {
			assert.Equal(t, 1001*time.Millisecond, c.took, "the two that are inside")
		} else {
			assert.Equal(t, 200*time.Millisecond, c.took)
		}
	}
	assert.Equal(t, 2, served(parents...))
}

func idleTenantGoes(t *testing.T) {
	last := func(idle time.Duration) time.Duration {
		g := &shed.Gate{Limit: 1, Queue: 100, MaxWait: -1, MaxTenants: 1, Tenant: byHeader("Tenant")}
		h := g.Handler(work(time.Second))
		await(startAll(h, 2, "/", "Tenant", "old")...) // one had to wait, so it is known
		time.Sleep(idle)
		first := send(h, "/", "Tenant", "somebody")
		mine := startAll(h, 5, "/", "Tenant", "new")
		var crowd []*call
		for i := range 20 {
			crowd = append(crowd, start(h, request("/", "Tenant", fmt.Sprint("crowd", i))))
		}
		await(first)
		await(mine...)
		await(crowd...)
		return slices.MaxFunc(mine, func(a, b *call) int { return int(a.took - b.took) }).took
	}
	assert.LessOrEqual(t, last(20*time.Second), 11*time.Second, "every other slot is the new one's")
	assert.Greater(t, last(time.Second), 20*time.Second, "it shares with the crowd")
}

func leavesWhileWaiting(t *testing.T) {
	inside := newHeld()
	g := &shed.Gate{Limit: 1, MaxWait: -1}
	h := g.Handler(inside)
	one := send(h, "/")
	two := send(h, "/")
	assert.Equal(t, 1, g.Stats().Waiting)
	time.AfterFunc(50*time.Millisecond, two.leave)
	await(two)
	assert.Equal(t, 50*time.Millisecond, two.took)
	assert.Equal(t, shed.Stats{
		Limit: 1, InFlight: 1, Admitted: 1, Refused: map[shed.Reason]int64{shed.Gone: 1},
	}, g.Stats())
	inside.let(1)
	await(one)
}

func headerCounts(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		var told events
		g := &shed.Gate{
			Limit: 1, TrustPriority: func(*http.Request) bool { return trusted },
			Hooks: &shed.Hooks{Queued: told.note},
		}
		inside := newHeld()
		var entered []string
		h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered = append(entered, r.Header.Get("Request-Priority"))
			inside.ServeHTTP(w, r)
		}))
		all := []*call{send(h, "/")}
		for _, class := range []string{"sheddable", "critical-plus", "Critical", "SHEDDABLE-PLUS", "450", ""} {
			all = append(all, send(h, "/", "Request-Priority", class))
		}
		inside.let(7)
		await(all...)
		got := told.classes()
		if trusted {
			assert.Equal(t, []shed.Class{shed.Sheddable, shed.CriticalPlus, shed.Critical, shed.SheddablePlus, shed.Critical, shed.Critical}, got)
			assert.Equal(t, []string{"", "critical-plus", "Critical", "450", "", "SHEDDABLE-PLUS", "sheddable"}, entered)
		} else {
			assert.Equal(t, make([]shed.Class, 6), got)
			assert.Equal(t, []string{"", "sheddable", "critical-plus", "Critical", "SHEDDABLE-PLUS", "450", ""}, entered)
		}
	}
}

// slotComesBack ends five requests at limit five each in its own way, twice.
func slotComesBack(t *testing.T, end func()) {
	inside := newHeld()
	g := &shed.Gate{Limit: 5, Queue: -1}
	h := g.Handler(inside)
	for range 3 {
		all := startAll(h, 5, "/")
		require.Equal(t, 5, g.Stats().InFlight)
		for range 5 {
			inside.out <- end
		}
		await(all...)
		require.Zero(t, g.Stats().InFlight)
	}
}

func levelsBeyond(t *testing.T) {
	var told events
	for _, class := range []shed.Class{99999, -99999} {
		g := &shed.Gate{
			Limit: 1, Priority: func(*http.Request) shed.Class { return class }, TrustPriority: yes,
			Hooks: &shed.Hooks{Admitted: told.note},
		}
		h := g.Handler(work(time.Second))
		for _, said := range []string{"99999", "-1", "9223372036854775808", "", "sheddable, critical"} {
			all := startAll(h, 2, "/", "Request-Priority", said, "Request-Attempt", said, "Request-Timeout-Ms", "99999999999999999999")
			await(all...)
			require.Equal(t, 1, served(all...))
		}
		_ = class.String()
		slot, err := g.Enter(t.Context(), shed.Entry{Class: class, Weight: -7, Attempt: -3})
		require.NoError(t, err)
		slot.Leave()
	}
	got := told.classes()
	require.Len(t, got, 12)
	assert.Equal(t, shed.Sheddable, slices.Min(got[:6]))
	assert.Equal(t, shed.CriticalPlus, slices.Max(got[6:]))
}

func hogIsRemembered(t *testing.T) {
	g := &shed.Gate{
		Limit: 1, Queue: 100, MaxWait: -1, MaxTenants: 64, Tenant: byHeader("Tenant"),
		Known: func(r *http.Request) bool { return r.Header.Get("Tenant") == "small" },
	}
	h := g.Handler(work(10 * time.Millisecond))
	hog := startAll(h, 100, "/", "Tenant", "hog")
	for i := range 2000 {
		start(h, request("/", "Tenant", fmt.Sprint("new", i)))
	}
	synctest.Wait()
	hog = append(hog, startAll(h, 100, "/", "Tenant", "hog")...)
	small := startAll(h, 5, "/", "Tenant", "small")
	await(small...)
	assert.Equal(t, 5, served(small...))
	await(hog...)
	assert.Less(t, served(hog...), 50, "a hundred of them were there first")
	assert.LessOrEqual(t, small[4].took, time.Second)
	for g.Stats().Waiting+g.Stats().InFlight > 0 {
		time.Sleep(time.Second)
	}
}

func coldHouse(t *testing.T) {
	inside := newHeld()
	g := &shed.Gate{}
	h := g.Handler(inside)
	for range 3 {
		all := startAll(h, 20, "/")
		assert.Equal(t, 20, g.Stats().InFlight)
		inside.let(20)
		await(all...)
		time.Sleep(10 * time.Hour)
	}
}
