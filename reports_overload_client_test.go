package polite_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
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

// A call that a pacer and a lane of the same pacer claim holds one place, so one
// miss is one.
func TestOnePlaceAdaptsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacer.Pacer{AdaptInFlight: true}
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})
		tr := &polite.Transport{Base: base, Pacer: p, Lanes: []polite.Lane{{Pacer: p}}}
		r, err := http.NewRequest(http.MethodGet, "http://api.example/", nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(r)
		require.NoError(t, err)
		resp.Body.Close()
		_, limit := p.InFlight("http://api.example:80")
		assert.Equal(t, 18, limit)
	})
}

// An answer is not given up for a try that the pacer would refuse, as it would
// leave too late to be answered.
func TestAnswerIsKeptForATryThatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(400 * time.Millisecond)
			status := http.StatusOK
			if n++; n > 20 {
				status = http.StatusInternalServerError
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})
		tr := &polite.Transport{
			Base:  base,
			Pacer: &pacer.Pacer{Rate: pacer.Per(1, time.Second), Burst: 1},
			Retry: &retry.Policy{Base: time.Millisecond, AttemptTimeout: time.Minute},
		}
		call := func(d time.Duration) (*http.Response, error) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example/", nil)
			require.NoError(t, err)
			return tr.RoundTrip(r)
		}
		for range 20 {
			_, err := call(time.Minute)
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		resp, err := call(1200 * time.Millisecond) // a retry could leave after 1 s
		require.NoError(t, err)
		assert.Equal(t, http.StatusInternalServerError, resp.StatusCode)
		assert.Equal(t, 21, n)
	})
}
