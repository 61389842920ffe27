package limiter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// queueGuard lets one request leave a second, and notes when it did.
type queueGuard struct {
	http.Handler
	store *Memory
	queue *Limit
	other *Limit

	mu   sync.Mutex
	left []time.Duration
}

func newQueueGuard(change func(*Guard)) *queueGuard {
	q := &queueGuard{store: &Memory{}, queue: made(LeakyQueue("queue", Per(1, time.Second), 20)), other: window("other", 1000)}
	g := &Guard{Store: q.store, Rules: []Rule{
		{Key: Global, Limits: []*Limit{q.other}},
		{Key: Global, Limits: []*Limit{q.queue}},
	}}
	change(g)
	start := time.Now()
	q.Handler = g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.left = append(q.left, time.Since(start))
	}))
	return q
}

func (q *queueGuard) remaining(t *testing.T, l *Limit) int64 {
	d, err := q.store.Take(context.Background(), l.Charge("global", 0))
	require.NoError(t, err)
	return d.Remaining
}

// go sends n requests at once and returns their answers once all are there.
func (q *queueGuard) ask(n int) []*httptest.ResponseRecorder {
	all := make([]*httptest.ResponseRecorder, n)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { all[i] = ask(q, "GET", "/") })
	}
	wait.Wait()
	return all
}

func codes(all []*httptest.ResponseRecorder) map[int]int {
	n := map[int]int{}
	for _, w := range all {
		n[w.Code]++
	}
	return n
}

func TestHoldLetsOneLeaveAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueGuard(func(*Guard) {})
		all := q.ask(4)
		assert.Equal(t, map[int]int{200: 4}, codes(all))
		assert.Equal(t, []time.Duration{1e9, 2e9, 3e9, 4e9}, q.left)
		for _, w := range all {
			assert.Regexp(t, `^"other";r=99\d;t=5\d, "queue";r=1\d;t=0$`, w.Header().Get("RateLimit"), "as of when it left")
		}
	})
}

func TestHoldMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueGuard(func(g *Guard) { g.MaxDelay = 3 * time.Second })
		start := time.Now()
		var refusedAt []time.Duration
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				if w := ask(q, "GET", "/"); w.Code == 429 {
					q.mu.Lock()
					refusedAt = append(refusedAt, time.Since(start))
					q.mu.Unlock()
					// 2 if it came before the other had given back.
					assert.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"))
					assert.Contains(t, w.Body.String(), `The queue is too long for this request to wait in, under limit \"queue\"`)
					assert.Contains(t, w.Body.String(), `"violated-policies":["queue"]`)
				}
			})
		}
		wait.Wait()
		assert.Equal(t, []time.Duration{1e9, 2e9, 3e9}, q.left)
		assert.Equal(t, []time.Duration{0, 0}, refusedAt, "at once")
		assert.EqualValues(t, 997, q.remaining(t, q.other), "they were given back")
		assert.EqualValues(t, 20, q.remaining(t, q.queue))

		// And the Retry-After was true.
		q.ask(3)
		var late sync.WaitGroup
		late.Go(func() { q.ask(3) })
		synctest.Wait()
		w := ask(q, "GET", "/")
		require.Equal(t, 429, w.Code)
		time.Sleep(time.Second)
		assert.Equal(t, 200, ask(q, "GET", "/").Code)
		late.Wait()
	})
}

func TestHoldUnbounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueGuard(func(g *Guard) { g.MaxDelay, g.MaxHeld = -1, -1 })
		assert.Equal(t, map[int]int{200: 20, 429: 5}, codes(q.ask(25)), "the queue's own capacity")
		assert.Equal(t, 20*time.Second, q.left[19])
	})
}

func TestHoldDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueGuard(func(*Guard) {})
		assert.Equal(t, map[int]int{200: 10, 429: 5}, codes(q.ask(15)))
		assert.Equal(t, 10*time.Second, q.left[9])

		many := made(LeakyQueue("many", Per(1000, time.Second), 5000))
		h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{many}}}}).Handler(ok200)
		var served, refused atomic.Int64
		var wait sync.WaitGroup
		for range 1200 {
			wait.Go(func() {
				w := ask(h, "GET", "/")
				if w.Code == 200 {
					served.Add(1)
					return
				}
				refused.Add(1)
				assert.Equal(t, "10", w.Header().Get("Retry-After"), "all who are held have left by then")
				assert.Contains(t, w.Body.String(), "Too many requests are waiting their turn")
			})
		}
		wait.Wait()
		assert.EqualValues(t, 1000, served.Load())
		assert.EqualValues(t, 200, refused.Load())
		assert.Equal(t, 200, ask(h, "GET", "/").Code, "places are free again")
	})
}

func TestHoldMaxHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueGuard(func(g *Guard) { g.MaxHeld = 2 })
		assert.Equal(t, map[int]int{200: 2, 429: 3}, codes(q.ask(5)))
		assert.Len(t, q.left, 2) // whoever found a place, at once or a tick later
		assert.EqualValues(t, 998, q.remaining(t, q.other))
		assert.Equal(t, map[int]int{200: 2}, codes(q.ask(2)), "their places are free")
	})
}

// A request that ends while it is held gives back its place among the held. That
// in the queue passes unused, and it stays charged.
func TestHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueGuard(func(g *Guard) { g.MaxHeld = 1 })
		ctx, cancel := context.WithCancel(context.Background())
		w := httptest.NewRecorder()
		var wait sync.WaitGroup
		wait.Go(func() { q.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx)) })
		synctest.Wait()
		assert.EqualValues(t, 999, q.remaining(t, q.other))
		start := time.Now()
		cancel()
		wait.Wait()
		assert.Zero(t, time.Since(start))
		assert.Empty(t, q.left, "not served")
		assert.Equal(t, 503, w.Code, "for whoever is still there, such as a middleware with a timeout")
		assert.Equal(t, "1", w.Header().Get("Retry-After"))
		assert.EqualValues(t, 999, q.remaining(t, q.other))
		assert.EqualValues(t, 19, q.remaining(t, q.queue))
		assert.Equal(t, map[int]int{200: 1}, codes(q.ask(1)), "its place is free")
		assert.Equal(t, []time.Duration{2 * time.Second}, q.left)
	})
}

// However many lose patience, those who wait leave a tick apart.
func TestHoldKeepsItsSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueGuard(func(*Guard) {})
		var wait sync.WaitGroup
		for i := range 60 {
			wait.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if i%3 != 0 {
					time.AfterFunc(time.Duration(i%7)*400*time.Millisecond, cancel)
				}
				q.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
			})
		}
		wait.Wait()
		assert.Greater(t, len(q.left), 9)
		for i, at := range q.left[1:] {
			assert.GreaterOrEqual(t, at-q.left[i], time.Second)
		}
	})
}

// What would wait too long in an empty queue is told never to come back.
func TestHoldNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := made(LeakyQueue("queue", Per(1, 3*time.Second), 10))
		h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{queue}, Cost: func(r *http.Request) int64 { return r.ContentLength }}}}).Handler(ok200)
		post := func(size int) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", size))))
			return w
		}
		w := post(4)
		assert.Equal(t, 429, w.Code)
		assert.NotContains(t, w.Header(), "Retry-After")
		assert.Equal(t, 200, post(3).Code)
	})
}

// One that could not leave before its deadline is told so at once.
func TestHoldDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueGuard(func(*Guard) {})
		ctx, cancel := context.WithTimeout(context.Background(), 900*time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		start := time.Now()
		q.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 429, w.Code)
		assert.EqualValues(t, 1000, q.remaining(t, q.other))
	})
}

// Giving back goes to the store of whoever brought one.
func TestHoldRefundsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &foreign{m: &Memory{}}
		queue, other := made(LeakyQueue("queue", Per(1, 9*time.Second), 5)), window("other", 9)
		h := (&Guard{Store: store, Rules: []Rule{
			{Key: Global, Limits: []*Limit{queue}, Cost: func(*http.Request) int64 { return 2 }},
		}}).Handler(ok200)
		assert.Equal(t, 429, ask(h, "GET", "/").Code)
		assert.Equal(t, []Charge{{queue, "global", 2}}, store.refunded)

		store.refunded = nil
		h = (&Guard{MaxDelay: -1, Store: store, Rules: []Rule{{Key: Global, Limits: []*Limit{queue, other}}}}).Handler(ok200)
		ctx, leave := context.WithTimeout(context.Background(), 4*time.Second)
		defer leave()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		assert.Equal(t, []Charge{{queue, "global", 1}, {other, "global", 1}}, store.refunded, "who could not have waited long enough")
		assert.NoError(t, store.ctx.Err(), "whatever the request's says")
		store.refunded = nil
		hangUp, leave := context.WithCancel(context.Background())
		time.AfterFunc(time.Millisecond, leave)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(hangUp))
		assert.Empty(t, store.refunded, "who has left")
	})
}

// foreign is a Store that the Guard does not know.
type foreign struct {
	m        *Memory
	refunded []Charge
	ctx      context.Context
}

func (f *foreign) Take(ctx context.Context, c ...Charge) (Decision, error) {
	return f.m.Take(ctx, c...)
}

func (f *foreign) Refund(ctx context.Context, c ...Charge) error {
	f.refunded, f.ctx = c, ctx
	return f.m.Refund(ctx, c...)
}

func TestGuardForeignStore(t *testing.T) {
	h := (&Guard{Store: &foreign{m: &Memory{}}, Rules: []Rule{
		{Key: Global, Limits: []*Limit{window("a", 3)}},
		{Key: Global, Limits: []*Limit{made(SlidingLog("b", 2, time.Minute))}},
	}}).Handler(ok200)
	assert.Equal(t, `"a";r=2;t=60, "b";r=1`, ask(h, "GET", "/").Header().Get("RateLimit"))
	assert.Equal(t, []int{200, 429}, statuses(2, h, "GET", "/"))
}
