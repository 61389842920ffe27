package polite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// Reports about what circuits cost, and about what a refusal says.

func hostsWithoutEnd(t *testing.T) {
	fine := roundTripper(func(r *http.Request) (*http.Response, error) {
		if len(r.URL.Host)%2 == 1 && r.URL.Path == "/" {
			return nil, dialError()
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
	})
	tr := polite.NewTransport(fine)
	tr.Retry.Base, tr.Breaker.OpenFor = -1, time.Hour
	call := func(url string) error {
		r := request(t, "GET", url, "")
		_, err := tr.RoundTrip(r)
		return err
	}
	for range 5 {
		call("http://down.host/") // an odd name: it cannot be reached
	}
	var open *breaker.OpenError
	require.ErrorAs(t, call("http://down.host/"), &open)

	goroutines, host := runtime.NumGoroutine(), 0
	visit := func(n int) {
		for range n {
			host++
			call("http://" + strconv.Itoa(host) + ".test/")
		}
	}
	visit(6000) // of which 4,096 are remembered
	before := heap()
	visit(6000)
	assert.Less(t, heap()-before, int64(512<<10), "it grows with the hosts")
	assert.LessOrEqual(t, tr.Breaker.Stats().Keys, 4096)
	assert.Positive(t, tr.Breaker.Stats().Evicted)
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.ErrorAs(t, call("http://down.host/"), &open, "an open circuit was forgotten for idle ones")
	runtime.KeepAlive(tr)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func providerHangs(t *testing.T) {
	p := newProvider(hang)
	tr := polite.NewTransport(p)
	tr.Retry = &retry.Policy{MaxAttempts: 1, AttemptTimeout: 30 * time.Second}
	for range 1800 { // a call a second for half an hour
		r := request(t, "GET", api, "")
		go tr.RoundTrip(r)
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	// Until the first five have timed out, all leave; then one probe at a time.
	first := 0
	for _, at := range p.at {
		if at < 35*time.Second {
			first++
		}
	}
	assert.InDelta(t, 35, first, 1)
	for i := first + 1; i < len(p.at); i++ {
		assert.GreaterOrEqual(t, p.at[i]-p.at[i-1], 30*time.Second, "two probes at a time")
	}
	assert.LessOrEqual(t, len(p.at)-first, 1800/30)
	assert.GreaterOrEqual(t, len(p.at)-first, 1800/91, "it does not probe")
}

func slowWhileTheyLast(t *testing.T) {
	p := newProvider(answers(200))
	tr, changes := guarded(p, &breaker.Breaker{Failures: -1, FailureRate: 0.5, MinCalls: 20, SlowCall: 2 * time.Second})
	for range 10 {
		require.Equal(t, 200, status(t, tr))
	}
	p.answer = hang
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 10 {
		r := request(t, "GET", api, "").WithContext(ctx)
		go tr.RoundTrip(r)
	}
	time.Sleep(2*time.Second - 1)
	synctest.Wait()
	require.Empty(t, changes())
	time.Sleep(time.Nanosecond)
	synctest.Wait()
	require.Equal(t, []string{"closed>open"}, changes())
	refusedFor(t, tr)
	cancel()
	synctest.Wait()
	require.Len(t, changes(), 1)
}

func refusalSaysHowLong(t *testing.T) {
	tr, _ := guarded(newProvider(fails(dialError())), &breaker.Breaker{Failures: 1})
	status(t, tr)
	left := refusedFor(t, tr)
	assert.LessOrEqual(t, left, 30*time.Second)
	time.Sleep(1234567 * time.Microsecond)
	assert.Equal(t, left-1234567*time.Microsecond, refusedFor(t, tr))
	var open *breaker.OpenError
	_, err := tr.Breaker.Acquire(apiKey)
	require.ErrorAs(t, err, &open)
	assert.Equal(t, left-1234567*time.Microsecond, open.RetryAfter)
	time.Sleep(refusedFor(t, tr) - 1)
	assert.EqualValues(t, 1, refusedFor(t, tr))

	// So that who answers others can tell them.
	tr.Fallback = func(r *http.Request, err error) (*http.Response, error) {
		if !errors.As(err, &open) {
			return nil, err
		}
		return reply(r, 503, "Retry-After", fmt.Sprint(math.Ceil(open.RetryAfter.Seconds()))), nil
	}
	resp, err := get(t, tr)
	require.NoError(t, err)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
}

func noGoroutineNoPlaceLost(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 500 {
		tr := polite.NewTransport(newProvider(fails(dialError())))
		tr.Retry, tr.Breaker.Failures = nil, 1
		require.Equal(t, -1, status(t, tr))
		refusedFor(t, tr)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)

	b := &breaker.Breaker{Failures: 1, OpenFor: time.Second, Probes: 2}
	enter := func() func(breaker.Outcome) {
		t.Helper()
		p, err := b.Enter(apiKey, time.Time{})
		require.NoError(t, err)
		return func(o breaker.Outcome) { p.Done(o, 0, time.Time{}) }
	}
	full := func() {
		t.Helper()
		_, err := b.Acquire(apiKey)
		require.Error(t, err)
	}
	enter()(breaker.Failure)
	time.Sleep(time.Second)
	unused := enter()
	full()
	unused(breaker.Neutral) // given back unused: not lost
	first := enter()
	unused(breaker.Success) // given back twice: neither a success nor a second place
	full()
	first(breaker.Success)
	first(breaker.Success)
	require.Equal(t, 1, b.Stats().NotClosed, "one probe counted twice")
	enter()(breaker.Success)
	require.Zero(t, b.Stats().NotClosed)
}

func refusedAtOnce(t *testing.T) {
	for name, tr := range refusing(t) {
		start, b := time.Now(), newBody("hello")
		r := request(t, "PUT", api, "")
		r.Body, r.ContentLength = b, 5
		r.GetBody = nil
		_, err := do(t, tr, r)
		var refused interface{ Refused() bool }
		require.ErrorAs(t, err, &refused, name)
		assert.True(t, refused.Refused(), name)
		assert.EqualValues(t, 1, b.closes.Load(), name)
		assert.Zero(t, b.reads.Load(), name)
		assert.Zero(t, time.Since(start), name)
		assert.Empty(t, tr.Base.(*provider).at, name)
	}

	// Nobody is there: it fails before it queues for its turn.
	p := newProvider(fails(dialError()))
	tr := &polite.Transport{
		Base: p, Breaker: &breaker.Breaker{Failures: 1, OpenFor: time.Hour},
		Pacer:  &pacer.Pacer{Rate: pacer.Per(1, time.Minute), Burst: 1},
		Quotas: []*quota.Quota{{Name: "day", Limit: 2, Period: quota.Day}},
	}
	status(t, tr)
	for range 10 {
		refusedFor(t, tr)
	}
	assert.Len(t, p.at, 1)
}
