package polite_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
)

// Reports about circuits.

const apiKey = "http://api.test:80"

// guarded is a Transport of a circuit alone; changes are those of its state.
func guarded(base http.RoundTripper, b *breaker.Breaker) (tr *polite.Transport, changes func() []string) {
	var mu sync.Mutex
	var all []string
	b.OnChange = func(_ string, from, to breaker.State) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, from.String()+">"+to.String())
	}
	return &polite.Transport{Base: base, Breaker: b}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// gates is a base whose calls end when the test says so, by their path.
type gates struct {
	mu   sync.Mutex
	ends map[string]chan error // nil: an answer
	in   atomic.Int32
}

func (g *gates) gate(path string) chan error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ends == nil {
		g.ends = map[string]chan error{}
	}
	if g.ends[path] == nil {
		g.ends[path] = make(chan error)
	}
	return g.ends[path]
}

func (g *gates) RoundTrip(r *http.Request) (*http.Response, error) {
	g.in.Add(1)
	defer g.in.Add(-1)
	if err := <-g.gate(r.URL.Path); err != nil {
		return nil, err
	}
	return reply(r, 200), nil
}

// start begins a call that goes on until end.
func (g *gates) start(t *testing.T, tr http.RoundTripper, path string) {
	r := request(t, "GET", "http://api.test"+path, "")
	go func() {
		if resp, err := tr.RoundTrip(r); err == nil {
			resp.Body.Close()
		}
	}()
	synctest.Wait()
}

func (g *gates) end(path string, err error) {
	g.gate(path) <- err
	synctest.Wait()
}

// refusedFor requires that the next call is refused at once, and returns for how long.
func refusedFor(t *testing.T, tr http.RoundTripper) time.Duration {
	t.Helper()
	start := time.Now()
	_, err := get(t, tr)
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
	require.Zero(t, time.Since(start))
	require.Positive(t, open.RetryAfter)
	return open.RetryAfter
}

func late(t *testing.T) {
	reset := errors.New("reset")
	g := &gates{}
	tr, changes := guarded(g, &breaker.Breaker{Failures: 1, Probes: 2, OpenFor: time.Second})
	for i := range 8 {
		g.start(t, tr, "/late"+strconv.Itoa(i))
	}
	g.start(t, tr, "/first")
	g.end("/first", reset)
	opened := []string{"closed>open"}
	g.end("/late0", nil)
	g.end("/late1", reset)
	require.Equal(t, opened, changes())
	refusedFor(t, tr)

	time.Sleep(time.Second)
	g.start(t, tr, "/probe1")
	require.EqualValues(t, 7, g.in.Load(), "six late ones and a probe")
	for i := 2; i < 5; i++ {
		g.end("/late"+strconv.Itoa(i), nil) // three successes close nothing
	}
	g.end("/late5", reset)
	require.Equal(t, append(opened, "open>half-open"), changes())
	refusedFor(t, tr) // the place is taken by the probe still
	g.end("/probe1", nil)
	g.start(t, tr, "/probe2")
	g.end("/probe2", nil)
	closed := append(opened, "open>half-open", "half-open>closed")
	require.Equal(t, closed, changes())
	g.end("/late6", reset)
	g.end("/late7", reset)
	require.Equal(t, closed, changes(), "failures of the time before")
}

func lostProbe(t *testing.T) {
	g := &gates{}
	tr, changes := guarded(g, &breaker.Breaker{Failures: 1, OpenFor: time.Second})
	g.start(t, tr, "/1")
	g.end("/1", errors.New("reset"))
	time.Sleep(time.Second)
	for range 5 { // none of these ever reports
		g.start(t, tr, "/lost")
		time.Sleep(30*time.Second - 1)
		refusedFor(t, tr)
		time.Sleep(time.Nanosecond)
	}
	assert.EqualValues(t, 5, g.in.Load())
	g.start(t, tr, "/probe")
	g.end("/probe", nil)
	for range 5 {
		g.end("/lost", errors.New("too late"))
	}
	assert.Equal(t, []string{"closed>open", "open>half-open", "half-open>closed"}, changes())
}

func thousandProbe(t *testing.T) {
	for _, end := range []error{nil, errors.New("reset"), context.Canceled} {
		var in, most atomic.Int32
		var fail atomic.Bool
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			n := in.Add(1)
			defer in.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if fail.Load() {
				return nil, errors.New("reset")
			}
			time.Sleep(time.Millisecond)
			if errors.Is(end, context.Canceled) {
				<-r.Context().Done() // given back without a verdict
			}
			if end != nil {
				return nil, end
			}
			return reply(r, 200), nil
		})
		tr, _ := guarded(base, &breaker.Breaker{Failures: 1, Probes: 100, OpenFor: time.Second})
		fail.Store(true)
		status(t, tr)
		fail.Store(false)
		most.Store(0)
		for range 3 { // what is given back must not raise the number of places
			time.Sleep(time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			var passed atomic.Int32
			var all sync.WaitGroup
			for range 1000 {
				r := request(t, "GET", api, "").WithContext(ctx)
				all.Go(func() {
					_, err := tr.RoundTrip(r)
					var open *breaker.OpenError
					if !errors.As(err, &open) {
						passed.Add(1)
					}
				})
			}
			all.Wait()
			assert.EqualValues(t, 1, passed.Load(), "probes in one millisecond, that end with %v", end)
		}
		assert.EqualValues(t, 1, most.Load())
	}
}

func failedProbe(t *testing.T) {
	p := newProvider(answers(500))
	tr, changes := guarded(p, &breaker.Breaker{Failures: -1, FailureRate: 0.9, MinCalls: 100, Probes: 10, OpenFor: 30 * time.Second})
	for range 100 {
		require.Equal(t, 500, status(t, tr))
	}
	require.Equal(t, []string{"closed>open"}, changes())
	time.Sleep(30 * time.Second)
	p.answer = answers(200)
	for range 9 {
		require.Equal(t, 200, status(t, tr))
	}
	p.answer = answers(500)
	require.Equal(t, 500, status(t, tr)) // one of ten
	assert.Equal(t, []string{"closed>open", "open>half-open", "half-open>open"}, changes())
	left := refusedFor(t, tr)
	assert.GreaterOrEqual(t, left, 15*time.Second, "the period begins anew")
	assert.LessOrEqual(t, left, 30*time.Second)
}

func neutralProbe(t *testing.T) {
	for name, answer := range map[string]func(int, *http.Request) (*http.Response, error){
		"an answer, where only silence opens": says(500),
		"a client's mistake":                  says(404),
	} {
		p := newProvider(fails(dialError()))
		tr, changes := guarded(p, &breaker.Breaker{UnreachableOnly: true, OpenFor: time.Second})
		for range 5 {
			require.Equal(t, -1, status(t, tr))
		}
		time.Sleep(time.Second)
		p.answer = hang
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, p.at, 6)
		p.answer = answer // and the only place is free again
		require.Positive(t, status(t, tr), name)
		assert.Equal(t, []string{"closed>open", "open>half-open", "half-open>closed"}, changes(), name)
	}
}

func exactShare(t *testing.T) {
	for _, c := range []struct {
		share     float64
		bad, good int
	}{{1, 5, 0}, {0.5, 10, 10}, {0.1, 3, 27}, {0.07, 7, 93}, {0.29, 29, 71}, {1.0 / 3, 1, 2}} {
		p := newProvider(answers(200))
		tr, _ := guarded(p, &breaker.Breaker{Failures: -1, FailureRate: c.share, MinCalls: c.bad + c.good})
		for range c.good {
			require.Equal(t, 200, status(t, tr))
		}
		p.answer = answers(500)
		for range c.bad {
			require.Equal(t, 500, status(t, tr), "%v opens too early", c.share)
		}
		refusedFor(t, tr)
	}
	p := newProvider(answers(200, 500))
	tr, _ := guarded(p, &breaker.Breaker{Failures: -1, FailureRate: 1, MinCalls: 5})
	for range 50 {
		require.Positive(t, status(t, tr), "one success is less than all failed")
	}
}

func siblingCancelled(t *testing.T) {
	reset := errors.New("reset")
	p := newProvider(func(_ int, r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/fails" {
			time.Sleep(time.Millisecond)
			return nil, reset
		}
		return hang(0, r)
	})
	tr, _ := guarded(p, &breaker.Breaker{Failures: 2})
	group := func() { // the first error cancels all others
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var all sync.WaitGroup
		for _, path := range []string{"/fails", "/a", "/b", "/c"} {
			r := request(t, "GET", "http://api.test"+path, "").WithContext(ctx)
			all.Go(func() {
				_, err := tr.RoundTrip(r)
				cancel(err)
			})
		}
		all.Wait()
	}
	group()
	require.Len(t, p.at, 4)
	assert.Zero(t, tr.Breaker.Stats().NotClosed, "three cancelled calls counted as failures")
	group()
	require.Len(t, p.at, 8)
	assert.Equal(t, 1, tr.Breaker.Stats().NotClosed, "they counted as successes")
}

func deadlineBeforeAndAfter(t *testing.T) {
	for name, tr := range map[string]*polite.Transport{
		"circuit alone": {Base: newProvider(hang), Breaker: &breaker.Breaker{Failures: 1}},
		"with a pacer":  {Base: newProvider(hang), Breaker: &breaker.Breaker{Failures: 1}, Pacer: &pacer.Pacer{}},
		"with retries":  {Base: newProvider(hang), Breaker: &breaker.Breaker{Failures: 1}, Pacer: &pacer.Pacer{}, Retry: &retry.Policy{AttemptTimeout: time.Minute}},
	} {
		soon := func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) }
		over, cancel := soon()
		defer cancel()
		time.Sleep(2 * time.Second)
		for range 10 {
			_, err := do(t, tr, request(t, "GET", api, "").WithContext(over))
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		}
		assert.Zero(t, tr.Breaker.Stats().NotClosed, "%s: nothing was sent, and it counts", name)

		ahead, cancel := soon()
		defer cancel()
		_, err := do(t, tr, request(t, "GET", api, "").WithContext(ahead))
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		assert.Equal(t, 1, tr.Breaker.Stats().NotClosed, "%s: the provider fell silent, and it does not count", name)
	}
}

func hardlyAnyTraffic(t *testing.T) {
	p := newProvider(nil)
	p.answer = func(n int, r *http.Request) (*http.Response, error) {
		if n%2 == 1 {
			return reply(r, 500), nil
		}
		return reply(r, 200), nil
	}
	tr := polite.NewTransport(p)
	tr.Retry = nil
	for range 500 { // half of them fail, one in ten seconds
		require.Positive(t, status(t, tr))
		time.Sleep(10 * time.Second)
	}
	time.Sleep(time.Minute)
	for range 20 { // all in one window: the share counts once twenty have ended
		require.Positive(t, status(t, tr))
		time.Sleep(400 * time.Millisecond)
	}
	require.Positive(t, status(t, tr))
	refusedFor(t, tr)
}

// stepped is t as read after the wall clock was set forward by d.
func stepped(t *testing.T, at time.Time, d time.Duration) time.Time {
	s := at
	*(*uint64)(unsafe.Pointer(&s)) += uint64(d/time.Second) << 30 // the wall clock's seconds, see time.Time
	require.Equal(t, d, s.Round(0).Sub(at.Round(0)))
	require.Zero(t, s.Sub(at))
	return s
}

func wallClockSteps(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		b := &breaker.Breaker{Failures: 1, ProbeTimeout: 10 * time.Second}
		now := time.Now()
		p, err := b.Enter(apiKey, now)
		require.NoError(t, err)
		p.Done(breaker.Unreachable, 0, now)
		left, open := b.Open(apiKey, now)
		require.True(t, open)
		after := func(d time.Duration) time.Time { return stepped(t, now.Add(d), step) }
		_, err = b.Enter(apiKey, after(left-1))
		require.Error(t, err, "%v shortens it", step)
		_, err = b.Enter(apiKey, after(left))
		require.NoError(t, err, "%v lengthens it", step)
		_, open = b.Open(apiKey, after(left+10*time.Second-1))
		require.True(t, open)
		_, open = b.Open(apiKey, after(left+10*time.Second))
		require.False(t, open)
	}
}
