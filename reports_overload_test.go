package polite_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
	"github.com/politehttp/polite/shed"
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

// server is a provider behind a gate.
func server(t *testing.T, gate *shed.Gate, h http.HandlerFunc) *http.Transport {
	t.Helper()
	_, base := pipenet.Serve(t, gate.Handler(h))
	return base
}

func shedIsObeyed(t *testing.T) {
	var mu sync.Mutex
	var refusals []shed.Event
	var at []time.Duration
	start := time.Now()
	gate := &shed.Gate{Limit: 1, Queue: -1, Hooks: &shed.Hooks{Refused: func(e shed.Event) {
		mu.Lock()
		defer mu.Unlock()
		refusals = append(refusals, e)
	}}}
	tr := polite.NewTransport(server(t, gate, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		at = append(at, time.Since(start))
		mu.Unlock()
		if r.URL.Path == "/long" {
			time.Sleep(10 * time.Second)
		}
	}))
	defer tr.CloseIdleConnections()
	tr.Retry.AttemptHeader = retry.AttemptHeader
	tr.Retry.MaxAttempts = -1
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		resp, err := tr.RoundTrip(request(t, "GET", api+"long", ""))
		if assert.NoError(t, err) {
			resp.Body.Close()
		}
	}()
	time.Sleep(time.Second)
	resp, err := get(t, tr)
	require.NoError(t, err)
	defer resp.Body.Close()
	<-busy
	assert.Equal(t, 200, resp.StatusCode, "in the end")
	require.NotEmpty(t, refusals)
	told := time.Second
	for i, e := range refusals {
		assert.Equal(t, 503, e.Status)
		assert.Equal(t, i+1, e.Attempt)
		assert.GreaterOrEqual(t, e.RetryAfter, time.Second)
		told += e.RetryAfter
	}
	require.Len(t, at, 2)
	assert.GreaterOrEqual(t, at[1], told, "every told wait was waited for")
	assert.LessOrEqual(t, len(refusals), 10, "in nine seconds")
	_, open := tr.Breaker.Open("http://api.test:80", time.Time{})
	assert.False(t, open, "a server that sheds is not down")
}

func shedKnowsAttemptAndDeadline(t *testing.T) {
	var mu sync.Mutex
	var admitted, refused []shed.Event
	served := 0
	gate := &shed.Gate{Limit: 1, Queue: 10, MaxWait: -1, Hooks: &shed.Hooks{
		Admitted: func(e shed.Event) { mu.Lock(); defer mu.Unlock(); admitted = append(admitted, e) },
		Refused:  func(e shed.Event) { mu.Lock(); defer mu.Unlock(); refused = append(refused, e) },
	}}
	tr := &polite.Transport{
		Base: server(t, gate, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			served++
			mu.Unlock()
			time.Sleep(2 * time.Second)
		}),
		Retry: &retry.Policy{
			AttemptTimeout: 3 * time.Second, AttemptHeader: retry.AttemptHeader, DeadlineHeader: retry.DeadlineHeader,
			Base: time.Second, Jitter: retry.NoJitter,
		},
	}
	defer tr.CloseIdleConnections()
	assert.Equal(t, shed.AttemptHeader, retry.AttemptHeader, "the two ends agree")
	assert.Equal(t, shed.DeadlineHeader, retry.DeadlineHeader)
	first := make(chan int)
	go func() { first <- status(t, tr) }()
	time.Sleep(time.Millisecond)

	// Its caller has a second and the place is taken for two: the server knows,
	// and answers before the second is over instead of working for nobody.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	resp, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx))
	if err == nil {
		resp.Body.Close()
		assert.Equal(t, 503, resp.StatusCode)
	}
	assert.Equal(t, 200, <-first)
	time.Sleep(time.Minute)
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, 1, served, "nobody waited for the second")
	require.NotEmpty(t, refused)
	for i, e := range refused {
		assert.Contains(t, []shed.Reason{shed.WouldMiss, shed.Waited, shed.Gone}, e.Reason)
		assert.LessOrEqual(t, e.Waited, time.Second)
		assert.Equal(t, i+1, e.Attempt)
	}
	assert.Equal(t, 1, admitted[0].Attempt)
}

func goexitInProbe(t *testing.T) {
	exit := true
	base := newProvider(func(n int, r *http.Request) (*http.Response, error) {
		switch {
		case n <= 5:
			return nil, errors.New("down")
		case exit:
			runtime.Goexit()
		}
		return reply(r, 200), nil
	})
	tr := &polite.Transport{Base: base, Breaker: &breaker.Breaker{OpenFor: time.Second}, Pacer: &pacer.Pacer{MaxInFlight: 1}, Throttle: &breaker.Throttle{}}
	for range 5 {
		status(t, tr)
	}
	require.Equal(t, -1, status(t, tr), "open")
	time.Sleep(time.Second)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		status(t, tr)
		t.Error("it returned")
	}()
	<-gone
	require.Len(t, base.at, 6)
	exit = false
	assert.Equal(t, 200, status(t, tr), "the next one probes at once, and finds a place in flight")
	assert.Equal(t, 200, status(t, tr))
}

func cancelledCallOpensNothing(t *testing.T) {
	tr := polite.NewTransport(newProvider(hang))
	tr.Breaker = &breaker.Breaker{Failures: 1}
	tr.Pacer.AdaptInFlight = true
	tr.Throttle = &breaker.Throttle{MinCalls: 1}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
	}
	_, open := tr.Breaker.Open("http://api.test:80", time.Time{})
	assert.False(t, open)
	assert.Zero(t, tr.Throttle.Share("http://api.test:80", time.Time{}))
	assert.Equal(t, 20, limitOf(tr))
}

func panicGivesPlaceBack(t *testing.T) {
	angry := true
	base := newProvider(func(_ int, r *http.Request) (*http.Response, error) {
		if angry {
			panic("a fault of the base")
		}
		return reply(r, 200), nil
	})
	tr := adaptive(base, 5)
	tr.Throttle = &breaker.Throttle{MinCalls: 1}
	for range 50 {
		assert.Panics(t, func() { _, _ = tr.RoundTrip(request(t, "GET", api, "")) })
	}
	angry = false
	calls, limit := tr.Pacer.InFlight("http://api.test:80")
	assert.Equal(t, []int{0, 5}, []int{calls, limit})
	assert.Zero(t, tr.Throttle.Share("http://api.test:80", time.Time{}))
	assert.Equal(t, 200, status(t, tr))
}

func waiterLeavesWithCaller(t *testing.T) {
	tr := adaptive(newProvider(hang), 1)
	go func() { _, _ = get(t, tr) }() // has the place
	synctest.Wait()
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 50*time.Millisecond, time.Since(start))
	assert.Zero(t, tr.Pacer.Stats().Waiting)
}

func localRefusalsAreNoSamples(t *testing.T) {
	for name, refuse := range map[string]func(*polite.Transport){
		"open circuit": func(tr *polite.Transport) {
			tr.Breaker = &breaker.Breaker{Failures: 1}
			done, _ := tr.Breaker.Acquire("http://api.test:80")
			done(breaker.Failure)
		},
		"hold": func(tr *polite.Transport) {
			tr.Pacer.MaxWait = time.Second
			tr.Pacer.Hold("http://api.test:80", time.Now().Add(time.Hour))
		},
		"the caller's end": func(tr *polite.Transport) {
			tr.Base = newProvider(func(_ int, r *http.Request) (*http.Response, error) { return nil, context.Canceled })
		},
	} {
		tr := adaptive(newProvider(says(503)), 0)
		tr.Throttle = &breaker.Throttle{MinCalls: 1}
		refuse(tr)
		for range 100 {
			r := request(t, "GET", api, "")
			if name == "the caller's end" {
				ctx, cancel := context.WithCancel(r.Context())
				tr.Base.(*provider).answer = func(int, *http.Request) (*http.Response, error) { cancel(); return nil, ctx.Err() }
				r = r.WithContext(ctx)
			}
			_, err := do(t, tr, r)
			require.Error(t, err, name)
		}
		assert.Equal(t, 20, limitOf(tr), name)
		assert.Zero(t, tr.Throttle.Share("http://api.test:80", time.Time{}), name)
	}
	// And what the throttle keeps here counts nowhere else.
	tr := adaptive(newProvider(says(500)), 0)
	tr.Breaker = &breaker.Breaker{Failures: -1, FailureRate: 1, MinCalls: 300}
	tr.Throttle = &breaker.Throttle{}
	refused := 0
	for range 1000 {
		resp, err := get(t, tr)
		if _, ok := errors.AsType[*breaker.ThrottleError](err); ok {
			refused++
		} else if assert.NoError(t, err) {
			resp.Body.Close()
		}
	}
	assert.Greater(t, refused, 700)
	_, open := tr.Breaker.Open("http://api.test:80", time.Time{})
	assert.False(t, open, "fewer than 300 were sent")
	assert.Equal(t, 20, limitOf(tr))
}

func throttledInAnOutage(t *testing.T) {
	base := newProvider(says(500))
	tr := &polite.Transport{Base: base, Retry: &retry.Policy{Base: -1, MaxAttempts: 3}, Throttle: &breaker.Throttle{}}
	h := listen(tr)
	const calls = 6000
	refused := 0
	for range calls { // 100 a second
		time.Sleep(10 * time.Millisecond)
		_, err := get(t, tr)
		if own, ok := errors.AsType[*breaker.ThrottleError](err); ok {
			refused++
			assert.LessOrEqual(t, own.Share, 0.9)
		}
	}
	assert.InDelta(t, 0.9, float64(refused)/calls, 0.03)
	assert.Less(t, len(base.at), calls/7, "sent, retries included")
	assert.Contains(t, h.why(), observe.Refused)
	for _, r := range h.retried {
		_, ok := errors.AsType[*breaker.ThrottleError](r.Err)
		assert.False(t, ok, "what was kept here is not tried again")
	}
}

func throttleIgnoresCancelled(t *testing.T) {
	tr := &polite.Transport{Base: newProvider(hang), Throttle: &breaker.Throttle{MinCalls: 1, K: 1}}
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
	}
	assert.Zero(t, tr.Throttle.Share("http://api.test:80", time.Time{}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, 0.5, tr.Throttle.Share("http://api.test:80", time.Time{}), "a deadline that was missed counts")
}

func throttledBeforeTheWait(t *testing.T) {
	base := newProvider(says(500))
	tr := &polite.Transport{
		Base: base, Throttle: &breaker.Throttle{PassEvery: -1, Window: time.Hour},
		Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Second), Burst: 1},
	}
	for range 100 {
		p, err := tr.Throttle.Enter("http://api.test:80", time.Time{}, 1)
		require.NoError(t, err)
		p.Done(breaker.Failure, time.Time{})
	}
	require.Equal(t, 0.9, tr.Throttle.Share("http://api.test:80", time.Time{}))
	start, refused := time.Now(), 0
	for range 50 {
		if _, err := get(t, tr); err != nil {
			refused++
			own := &breaker.ThrottleError{}
			require.ErrorAs(t, err, &own, fmt.Sprint(err))
			assert.Equal(t, "http://api.test:80", own.Key)
		}
	}
	assert.Greater(t, refused, 30)
	assert.LessOrEqual(t, time.Since(start), time.Duration(50-refused)*time.Second, "those that were refused did not wait")
}
