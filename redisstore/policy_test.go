package redisstore

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

func under(policy limiter.FailurePolicy, l *limiter.Limit) *limiter.Limit {
	l.OnFailure = policy
	return l
}

func window(name string, quota int64) *limiter.Limit {
	return made(limiter.FixedWindow(name, quota, time.Hour, limiter.ToFirst))
}

// flaky is a Redis that can be there or not.
type flaky struct {
	Client
	down  atomic.Bool
	calls atomic.Int64
}

func (f *flaky) Eval(ctx context.Context, s *Script, keys, args []string) ([]string, error) {
	f.calls.Add(1)
	if f.down.Load() {
		return nil, errDown
	}
	return f.Client.Eval(ctx, s, keys, args)
}

func flakyStore(t testing.TB) (*Store, *flaky) {
	s := storeAt(t, redistest.Mini(t).Addr())
	f := &flaky{Client: s.Client}
	s.Client = f
	return s, f
}

func TestPolicies(t *testing.T) {
	var told atomic.Int64
	s := &Store{Client: failing{}, OnDegraded: func(err error) { told.Add(1); assert.Error(t, err) }}
	open, closed := window("open", 5), under(limiter.Closed, window("closed", 5))

	d, err := s.Take(t.Context(), open.Charge("k", 1))
	require.NoError(t, err)
	assert.True(t, d.Allowed)
	assert.Equal(t, open, d.By)
	assert.ErrorIs(t, d.Degraded, errDown)

	d, err = s.Take(t.Context(), closed.Charge("k", 1))
	require.NoError(t, err)
	assert.False(t, d.Allowed)
	assert.Equal(t, time.Second, d.RetryAfter)
	assert.ErrorIs(t, d.Degraded, errDown)
	assert.EqualValues(t, 2, told.Load())

	d, err = s.Take(t.Context(), open.Charge("k", 1), closed.Charge("k", 1), open.Charge("k", 1))
	require.NoError(t, err)
	assert.False(t, d.Allowed)
	assert.Equal(t, closed, d.By)
	require.Len(t, d.Each, 3)
	for i, e := range d.Each {
		assert.Equal(t, i != 1, e.Allowed)
		assert.ErrorIs(t, e.Degraded, errDown)
	}

	// What can never be admitted is refused by no policy.
	d, err = s.Take(t.Context(), open.Charge("k", 6))
	require.NoError(t, err)
	assert.False(t, d.Allowed)
	assert.True(t, d.Never)
	assert.NoError(t, d.Degraded)

	for range 10 {
		d, _ = s.Take(t.Context(), closed.Charge("k", 1))
	}
	var circuit *breaker.OpenError
	require.ErrorAs(t, d.Degraded, &circuit)
	assert.Equal(t, time.Second, d.RetryAfter)
	assert.Error(t, s.Refund(t.Context(), open.Charge("k", 1)))
}

// A Guard answers 503 for Closed.
func TestGuardClosed(t *testing.T) {
	guard := &limiter.Guard{
		Store: &Store{Client: failing{}},
		Rules: []limiter.Rule{{Key: func(*http.Request) string { return "k" }, Limits: []*limiter.Limit{under(limiter.Closed, window("logins", 5))}}},
	}
	w := httptest.NewRecorder()
	guard.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	assert.Empty(t, w.Header().Get("RateLimit"))
}

// Processes that lose Redis admit their share of what was left, and all of them
// no more than the limit, dataspoke#112.
func TestLocal(t *testing.T) {
	const processes = 4
	first, f := flakyStore(t)
	l := under(limiter.Local, window("l", 100))
	stores := []*Store{first}
	for range processes - 1 {
		stores = append(stores, &Store{Client: f})
	}
	for _, s := range stores {
		s.Processes, s.Timeout = processes, 5*time.Second
	}
	for i, s := range stores {
		d, err := s.Take(t.Context(), l.Charge("k", 10))
		require.NoError(t, err)
		require.NoError(t, d.Degraded)
		require.EqualValues(t, 90-10*i, d.Remaining)
	}
	f.down.Store(true)
	admitted := int64(0)
	for i, s := range stores {
		var share int64
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 20 {
					d, err := s.Take(t.Context(), l.Charge("k", 1))
					if !assert.NoError(t, err) || !assert.Error(t, d.Degraded) || d.Allowed != (d.RetryAfter == 0) {
						return
					}
					if d.Allowed {
						atomic.AddInt64(&share, 1)
					}
				}
			})
		}
		group.Wait()
		assert.EqualValues(t, (90-10*i)/processes, share, "of what process %d last saw", i)
		admitted += share
	}
	assert.LessOrEqual(t, admitted, int64(100))

	// A key never seen starts with a full share; a stack is all or none there too.
	s, other := stores[0], under(limiter.Local, window("other", 8))
	d, err := s.Take(t.Context(), l.Charge("new", 20), other.Charge("new", 2))
	require.NoError(t, err)
	assert.True(t, d.Allowed)
	assert.EqualValues(t, 5, d.Each[0].Remaining)
	assert.EqualValues(t, 100, d.Each[0].Quota)
	assert.Equal(t, l, d.Each[0].By)
	d, err = s.Take(t.Context(), l.Charge("new", 1), other.Charge("new", 1))
	require.NoError(t, err)
	assert.False(t, d.Allowed)
	assert.Equal(t, other, d.By)
	assert.Error(t, s.Refund(t.Context(), other.Charge("new", 1)))
	d, err = s.Take(t.Context(), l.Charge("new", 5), other.Charge("new", 1))
	require.NoError(t, err)
	assert.True(t, d.Allowed, "the refusal was not charged, the refund was made: %+v", d)
	// More than the share, and not more than the quota: not never.
	d, err = s.Take(t.Context(), l.Charge("third", 26))
	require.NoError(t, err)
	assert.False(t, d.Allowed || d.Never)
	// Less than one unit: refused.
	d, err = s.Take(t.Context(), under(limiter.Local, window("three", 3)).Charge("k", 1))
	require.NoError(t, err)
	assert.False(t, d.Allowed)
	assert.Equal(t, time.Second, d.RetryAfter)

	// What was admitted meanwhile is forgotten by Redis, and not by this process.
	f.down.Store(false)
	require.Eventually(t, func() bool {
		d, err := s.Take(t.Context(), l.Charge("k", 0))
		return err == nil && d.Degraded == nil && d.Remaining == 60
	}, 5*time.Second, 10*time.Millisecond)
	f.down.Store(true)
	d, err = s.Take(t.Context(), l.Charge("k", 1))
	require.NoError(t, err)
	require.Error(t, d.Degraded)
	assert.False(t, d.Allowed, "a new share with each outage")
}

// Under every rule the last known level carries over to the share.
func TestLocalOfEachRule(t *testing.T) {
	for name, l := range oneOfEach() {
		s, f := flakyStore(t)
		s.Processes = 2
		l.OnFailure = limiter.Local
		d, err := s.Take(t.Context(), l.Charge("k", 6))
		require.NoError(t, err)
		require.NoError(t, d.Degraded, name)
		require.True(t, d.Allowed)
		f.down.Store(true)
		for i := range 3 {
			d, err = s.Take(t.Context(), l.Charge("k", 1))
			require.NoError(t, err)
			require.Error(t, d.Degraded)
			require.Equal(t, i < 2, d.Allowed, "%s: %+v", name, d)
		}
	}
}

// A caller who leaves is told so, and not what a policy says.
func TestCallerLeaves(t *testing.T) {
	hanging := slow{}
	s := &Store{Client: hanging, Timeout: 10 * time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	_, err := s.Take(ctx, window("l", 1).Charge("k", 1))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

type slow struct{}

func (slow) Eval(ctx context.Context, _ *Script, _, _ []string) ([]string, error) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
	return nil, errDown
}

// Whatever answers in place of Redis, it is a failure and no panic.
func TestStrangeAnswers(t *testing.T) {
	for _, reply := range [][]string{
		nil,
		{},
		{""},
		{"x"},
		{"1"},
		{"0"},
		{"j"},
		{"j0"},
		{"j9"},
		{"jx"},
		{"o"},
		{"o1"},
		{"ox,y"},
		{"o1,1"},
		{"1x,y;"},
		{"11,1;z"},
		{"11,1;1"},
		{"11,1;--"},
		{"11,1;" + pack("1b", 1, 1, 1)},
		{"11,1;" + pack("1b", 1, 1, 1, 1)},
		{"11,1;" + pack("2b", 1, 1, 1, 1, 1)},
		{"11,1;" + pack("1b", 1, 1, 1, 1, 1) + "-"},
		{"11,1;" + pack("1b", 1, 1, 1, 1, 1, 1, 1)},
		{"11,1;" + pack("1b", 1, 1, 1, -1, -1)},
		{"11,1;" + pack("1b", 1, 1, 1, 1, -1, 1)},
		{"11,1;" + pack("1b", 1, 1, 1) + nan + nan + nan},
		{"11,1;" + pack("1b", 1, 1, 1) + inf + frac},
		{"11,1;" + pack("1b", 1, 1, 1, maxExact+2, 1)},
		{"r"},
		{"OK"},
		{"11,1;", "x"},
		{"\x00"},
	} {
		s := &Store{Client: says(reply), NearKeys: -1}
		for name, l := range oneOfEach() {
			d, err := s.Take(t.Context(), under(limiter.Closed, l).Charge("k", 1))
			require.NoError(t, err)
			assert.False(t, d.Allowed, "%q %s: %+v", reply, name, d)
			_ = s.Refund(t.Context(), l.Charge("k", 1))
		}
	}
}

type says []string

func (s says) Eval(context.Context, *Script, []string, []string) ([]string, error) { return s, nil }

// While the circuit is open a decision costs no timeout, but microseconds.
func BenchmarkDegraded(b *testing.B) {
	s := &Store{Client: failing{}}
	l := under(limiter.Local, window("l", 1<<40))
	for b.Loop() {
		if d, err := s.Take(b.Context(), l.Charge("k", 1)); err != nil || !d.Allowed {
			b.Fatal(fmt.Sprint(d, err))
		}
	}
}

// A share is known by the limit's name and numbers, as the limit is in Redis: who
// makes a *Limit for each request has one share, not one a request.
func TestLocalByName(t *testing.T) {
	for processes, want := range map[int64]int{0: 400, 4: 100} {
		s := &Store{Client: failing{}, Processes: processes}
		admitted := func(n int, limit func() *limiter.Limit) (got int) {
			t.Helper()
			for range n {
				d, err := s.Take(t.Context(), under(limiter.Local, limit()).Charge("k", 1))
				require.NoError(t, err)
				require.Error(t, d.Degraded)
				if d.Allowed {
					got++
				}
			}
			return got
		}
		require.Equal(t, want, admitted(1000, func() *limiter.Limit { return window("w", 400) }))
		require.Equal(t, want, admitted(1000, func() *limiter.Limit { return window("other", 400) }), "another name")

		// Other numbers take over what is in use.
		was := window("w", 400)
		more := int(404/max(processes, 1)) - want
		require.Equal(t, more, admitted(1000, func() *limiter.Limit { return window("w", 404).Replacing(was) }))
		require.Zero(t, admitted(1000, func() *limiter.Limit {
			return made(limiter.TokenBucket("w", limiter.Per(404, 1000*time.Hour), 404))
		}), "another rule")
		// Plans of one name are alternatives: a key of one is not another's.
		d, err := s.Take(t.Context(), under(limiter.Local, window("w", 400)).Charge("k2", 1))
		require.NoError(t, err)
		require.True(t, d.Allowed)
	}
}

// Shares are bounded, whatever names there are.
func TestSharesAreBounded(t *testing.T) {
	s := &Store{Client: failing{}, Processes: 2}
	for i := range 3 * maxPlans {
		_, err := s.Take(t.Context(), under(limiter.Local, window(fmt.Sprint("w", i), 10)).Charge("k", 1))
		require.NoError(t, err)
		if n := max(len(s.shares.known), len(s.shares.latest)); n > maxPlans { // require would take most of the time
			t.Fatalf("%d are known, of at most %d", n, maxPlans)
		}
	}
}
