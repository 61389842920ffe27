package polite_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/pacer"
)

var overloadReports = []report{
	{name: "Netflix/concurrency-limits#234, camunda/camunda#26408: two hundred callers never exceed the limit", test: neverOverInFlight},
	{name: "Netflix/concurrency-limits#176: instant rejections do not raise the limit", test: rejectionsRaiseNothing},
	{name: "Netflix/concurrency-limits#155 PR #174: reaching the most does not halve the limit", test: atTheMostItStays},
	{name: "Netflix/concurrency-limits#35, vectordotdev/vector#3255: from 20 to 400 in seconds, where there is room", test: growsInSeconds},
	{name: "oumi-ai/oumi#2508: one call in two hundred fails, and the limit recovers", test: recoversWithErrors},
	{name: "palantir/conjure-java-runtime#1192, palantir/dialogue#453, infinigence/octollm#41: a place is held to the end of the body, and the header counts", test: heldToTheEndOfTheBody},
	{name: "integrations/terraform-provider-github#3605: a caller that forgets Close, until its context ends", test: forgetsClose},
	{name: "integrations/terraform-provider-github#3605: a caller that forgets Close, of a context without an end", real: forgetsCloseForEver},
	{name: "SlimPlanet/SlimFaas#344: recovery comes with time, not with calls", test: recoversByTime},
	{name: "kubernetes/kubernetes#117734 #79805: a server that sheds tells when to come back, and is obeyed", test: shedIsObeyed},
	{name: "grpc-timeout, x-envoy-attempt-count: a server that sheds knows the attempt and the deadline", test: shedKnowsAttemptAndDeadline},

	{name: "sony/gobreaker v2.4.0: Goexit in a probe", test: goexitInProbe},
	{name: "failsafe-go v0.9.8: one call that its caller cancels opens nothing", test: cancelledCallOpensNothing},
	{name: "failsafe-go v0.9.8, platinummonkey/go-concurrency-limits: a panic gives its place back", test: panicGivesPlaceBack},
	{name: "failsafe-go v0.9.8: who waits leaves when its caller does", test: waiterLeavesWithCaller},
	{name: "failsafe-go v0.9.8, go-kratos/aegis: local refusals and cancellations are no samples", test: localRefusalsAreNoSamples},

	{name: "Site Reliability Engineering, ch. 21: an outage gets a tenth of the calls, and no retries of those kept here", test: throttledInAnOutage},
	{name: "Site Reliability Engineering, ch. 21: what the caller gave up is neither asked nor accepted", test: throttleIgnoresCancelled},
	{name: "go-zero breaker: refused before it waits, and one chance for a call that waits", test: throttledBeforeTheWait},
}

// What users of clients and servers under overload reported, and faults of
// today's clients, each as a test.
func TestOverloadReports(t *testing.T) {
	require.Len(t, overloadReports, 19)
	names := map[string]bool{}
	for _, r := range overloadReports {
		require.False(t, names[r.name], "twice: %s", r.name)
		names[r.name] = true
		t.Run(r.name, func(t *testing.T) {
			if r.real != nil {
				r.real(t)
				return
			}
			synctest.Test(t, r.test)
		})
	}
}

// errLate is how a base says that it waited long enough.
var errLate error = &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}

// adaptive is a Transport of an adaptive limit alone.
func adaptive(base http.RoundTripper, most int) *polite.Transport {
	return &polite.Transport{Base: base, Pacer: &pacer.Pacer{MaxInFlight: most, AdaptInFlight: true}}
}

func limitOf(tr *polite.Transport) int {
	_, limit := tr.Pacer.InFlight("http://api.test:80")
	return limit
}

// together has so many callers send one call after the other, for a time.
func together(t *testing.T, tr http.RoundTripper, callers int, d time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for range callers {
		wg.Go(func() {
			for time.Now().Before(end) {
				status(t, tr)
			}
		})
	}
	wg.Wait()
}

// takes has a provider answer after a time.
func takes(d time.Duration, answer func(int, *http.Request) (*http.Response, error)) func(int, *http.Request) (*http.Response, error) {
	return func(n int, r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return answer(n, r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func neverOverInFlight(t *testing.T) {
	for name, p := range map[string]*pacer.Pacer{
		"fixed":    {MaxInFlight: 10},
		"adaptive": {MaxInFlight: 10, AdaptInFlight: true},
	} {
		var now, most, sent atomic.Int64
		tr := &polite.Transport{Pacer: p, Base: newProvider(func(n int, r *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), now.Add(1)))
			sent.Add(1)
			time.Sleep(time.Millisecond)
			now.Add(-1)
			if n%4 == 0 {
				return nil, errLate
			}
			return reply(r, 200), nil
		})}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				for range 5 {
					status(t, tr)
				}
			})
		}
		wg.Wait()
		assert.LessOrEqual(t, most.Load(), int64(10), name)
		assert.EqualValues(t, 1000, sent.Load(), name)
	}
}

func rejectionsRaiseNothing(t *testing.T) {
	tr := adaptive(newProvider(says(503)), 0)
	was := limitOf(tr)
	require.Equal(t, 20, was)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			for range 20 {
				status(t, tr)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 1, limitOf(tr))

	for name, base := range map[string]func(int, *http.Request) (*http.Response, error){
		"500":                  says(500),
		"a refused connection": fails(dialError()),
	} {
		tr := adaptive(newProvider(takes(time.Millisecond, base)), 0)
		together(t, tr, 30, 50*time.Millisecond)
		assert.Equal(t, 20, limitOf(tr), name)
	}
}

func atTheMostItStays(t *testing.T) {
	tr := adaptive(newProvider(takes(100*time.Millisecond, says(200))), 100)
	for range 2 {
		together(t, tr, 200, time.Second)
		assert.Equal(t, 100, limitOf(tr))
	}
}

func growsInSeconds(t *testing.T) {
	tr := adaptive(newProvider(takes(200*time.Millisecond, says(200))), 400)
	together(t, tr, 500, 2*time.Second)
	assert.Equal(t, 400, limitOf(tr))
}

func recoversWithErrors(t *testing.T) {
	down := true
	tr := adaptive(newProvider(takes(100*time.Millisecond, func(n int, r *http.Request) (*http.Response, error) {
		if down || n%200 == 0 {
			return nil, errLate
		}
		return reply(r, 200), nil
	})), 0)
	together(t, tr, 40, 5*time.Second)
	require.LessOrEqual(t, limitOf(tr), 2)
	down = false
	together(t, tr, 40, 10*time.Second)
	assert.GreaterOrEqual(t, limitOf(tr), 25)
}

// slowBody ends after a time.
type slowBody struct {
	d    time.Duration
	ends func()
}

func (b slowBody) Read([]byte) (int, error) { time.Sleep(b.d); b.ends(); return 0, io.EOF }
func (b slowBody) Close() error             { return nil }

func heldToTheEndOfTheBody(t *testing.T) {
	var out, most atomic.Int64
	tr := adaptive(newProvider(func(_ int, r *http.Request) (*http.Response, error) {
		most.Store(max(most.Load(), out.Add(1)))
		resp := reply(r, 200)
		resp.Body = slowBody{time.Minute, func() { out.Add(-1) }}
		return resp, nil
	}), 20)
	var wg sync.WaitGroup
	for range 60 {
		wg.Go(func() {
			resp, err := get(t, tr)
			if assert.NoError(t, err) {
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		})
	}
	start := time.Now()
	wg.Wait()
	assert.EqualValues(t, 20, most.Load(), "answers that are read hold their places")
	assert.Equal(t, 3*time.Minute, time.Since(start))

	// The answer counts at its header: the limit grew before a body was read.
	tr = adaptive(newProvider(func(_ int, r *http.Request) (*http.Response, error) {
		resp := reply(r, 200)
		resp.Body = slowBody{time.Hour, func() {}}
		return resp, nil
	}), 0)
	for range 11 {
		_, err := get(t, tr)
		require.NoError(t, err)
	}
	assert.Equal(t, 40, limitOf(tr))
}

func forgetsClose(t *testing.T) {
	tr := adaptive(newProvider(says(200)), 20)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 20 {
		_, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx)) // and never closes
		require.NoError(t, err)
	}
	start := time.Now()
	for range 100 {
		assert.Equal(t, 200, status(t, tr))
	}
	assert.Equal(t, time.Minute, time.Since(start), "until the callers' context ends")
	synctest.Wait() // for all that its end sets off
	calls, limit := tr.Pacer.InFlight("http://api.test:80")
	assert.Equal(t, []int{0, 20}, []int{calls, limit})
}

func forgetsCloseForEver(t *testing.T) {
	tr := adaptive(newProvider(says(200)), 20)
	forget := func() {
		r, err := http.NewRequestWithContext(context.Background(), "GET", api, nil)
		require.NoError(t, err)
		_, err = tr.RoundTrip(r)
		require.NoError(t, err)
	}
	for range 20 {
		forget()
	}
	inFlight := func() int {
		calls, _ := tr.Pacer.InFlight("http://api.test:80")
		return calls
	}
	require.Equal(t, 20, inFlight())
	require.Eventually(t, func() bool {
		runtime.GC()
		return inFlight() == 0
	}, 10*time.Second, time.Millisecond, "the garbage collector finds them")
}

func recoversByTime(t *testing.T) {
	base := newProvider(says(500))
	tr := &polite.Transport{Base: base, Throttle: &breaker.Throttle{}}
	for range 200 {
		status(t, tr)
	}
	assert.Greater(t, tr.Throttle.Share("http://api.test:80", time.Time{}), 0.8)
	time.Sleep(10 * time.Second) // in which nobody calls
	assert.Zero(t, tr.Throttle.Share("http://api.test:80", time.Time{}))

	tr = adaptive(newProvider(says(503)), 0)
	together(t, tr, 1, 0)
	for range 50 {
		status(t, tr)
	}
	require.Equal(t, 1, limitOf(tr))
	time.Sleep(5 * time.Minute)
	tr.Base.(*provider).answer = says(200)
	status(t, tr)
	assert.Equal(t, 20, limitOf(tr))
}
