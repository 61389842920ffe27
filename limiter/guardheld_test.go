package limiter

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// number is what a field says after a name, such as ";t=".
func number(t *testing.T, w *httptest.ResponseRecorder, field, after string) int64 {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(after) + `(\d+)`).FindStringSubmatch(w.Header().Get(field))
	require.NotNil(t, m, "%s: %v", field, w.Header())
	n, err := strconv.ParseInt(m[1], 10, 64)
	require.NoError(t, err)
	return n
}

// After a hold, t and X-RateLimit-Reset are as of when the answer leaves: who
// obeys is admitted, and who comes a second earlier is not.
func TestHoldTellsWhenThereIsMore(t *testing.T) {
	for _, l := range []func() *Limit{
		func() *Limit { return made(SlidingLog("l", 1, 20*time.Second)) },
		func() *Limit { return made(SlidingBuckets("l", 1, 20*time.Second, 5)) },
		func() *Limit { return made(SlidingCounter("l", 1, 20*time.Second)) },
		func() *Limit { return made(TokenBucket("l", Per(1, 20*time.Second), 1)) },
		func() *Limit { return made(FixedWindow("l", 1, 20*time.Second, ToFirst)) },
	} {
		for _, early := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				h := (&Guard{Legacy: true, Rules: []Rule{{Key: Global, Limits: []*Limit{l(), made(LeakyQueue("q", Per(1, 8*time.Second), 10))}}}}).Handler(ok200)
				begin := time.Now()
				w := ask(h, "GET", "/")
				require.Equal(t, 200, w.Code)
				require.Equal(t, 8*time.Second, time.Since(begin))
				wait := number(t, w, fieldState, `"l";r=0;t=`)
				assert.GreaterOrEqual(t, wait, int64(12), l().Kind())
				assert.Equal(t, time.Now().Unix()+wait, number(t, w, legacyReset, ""), l().Kind())
				if early {
					wait--
				}
				time.Sleep(time.Duration(wait) * time.Second)
				assert.Equal(t, map[bool]int{false: 200, true: 429}[early], ask(h, "GET", "/").Code, l().Kind())
			})
		}
	}
}

// What has come back while a request was held is there when it leaves.
func TestHoldTellsWhatCameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := made(SlidingLog("l", 2, 20*time.Second))
		h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{log, made(LeakyQueue("q", Per(1, 8*time.Second), 10))}}}}).Handler(ok200)
		ask(h, "GET", "/")
		time.Sleep(8 * time.Second)
		w := ask(h, "GET", "/") // comes at 16 s and leaves at 24 s
		assert.Contains(t, w.Header().Get(fieldState), `"l";r=0;t=0`)
	})
}

// Who hangs up while it is held is charged like anybody by every limit, or its
// own limit would not bound how many places in everybody's queue it wastes.
func TestHangingUpIsNotFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var good, evil atomic.Int64
		h := (&Guard{Rules: []Rule{
			{Key: Global, Limits: []*Limit{made(LeakyQueue("queue", Per(10, time.Second), 100))}},
			{Key: byHeader("User"), Limits: []*Limit{made(TokenBucket("user", Per(6, time.Second), 6))}},
		}}).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("User") == "good" {
				good.Add(1)
			} else {
				evil.Add(1)
			}
		}))
		begin := time.Now()
		var all sync.WaitGroup
		send := func(user string, patience time.Duration) {
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(patience, leave)
			r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
			r.Header.Set("User", user)
			all.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
		}
		for time.Since(begin) < 30*time.Second {
			send("evil", time.Millisecond)
			send("evil", time.Millisecond)
			if time.Since(begin)%(500*time.Millisecond) == 0 {
				send("good", time.Minute)
			}
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
		assert.EqualValues(t, 60, good.Load())
		assert.Zero(t, evil.Load())
	})
}

// Nor can a window's end be used to give back to the next window what was charged
// in the last.
func TestHangingUpAfterTheWindow(t *testing.T) {
	for _, l := range []func() *Limit{
		func() *Limit { return made(FixedWindow("l", 10, time.Minute, ToClock)) },
		func() *Limit { return made(Quota("l", 10, Day, nil)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(24*time.Hour - time.Second) // since midnight
			var served atomic.Int64
			h := (&Guard{MaxDelay: time.Minute, Rules: []Rule{{Key: Global, Limits: []*Limit{l(), made(LeakyQueue("q", Per(1, time.Second), 100))}}}}).
				Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
			var all sync.WaitGroup
			send := func(ctx context.Context) {
				all.Go(func() {
					h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
				})
				synctest.Wait()
			}
			ctx, leave := context.WithCancel(t.Context())
			for range 10 {
				send(ctx)
			}
			time.Sleep(1100 * time.Millisecond)
			before := served.Load()
			for range 10 {
				send(t.Context())
			}
			leave()
			synctest.Wait()
			for range 10 {
				send(t.Context())
			}
			time.Sleep(50 * time.Second)
			assert.EqualValues(t, 10, served.Load()-before, l().Kind())
			leave()
			all.Wait()
		})
	}
}

// obey sends a request again and again as its answers say, and returns them.
func obey(t *testing.T, h http.Handler, path string) (all []*httptest.ResponseRecorder) {
	for range 5 {
		w := ask(h, "GET", path)
		all = append(all, w)
		if w.Code != 429 || w.Header().Get("Retry-After") == "" {
			break
		}
		time.Sleep(time.Duration(number(t, w, "Retry-After", "")) * time.Second)
	}
	return all
}

// behind is a guard in whose queue so many wait, of which one leaves a second.
func behind(t *testing.T, n int, g *Guard, costs ...*Limit) http.Handler {
	cost := func(r *http.Request) int64 {
		c, err := strconv.ParseInt(r.URL.Query().Get("cost"), 10, 64)
		require.NoError(t, err)
		return c
	}
	queue := made(LeakyQueue("queue", Per(1, time.Second), 10))
	if costs == nil {
		g.Rules = []Rule{{Key: Global, Limits: []*Limit{queue}, Cost: cost}}
	} else {
		g.Rules = []Rule{{Key: Global, Limits: []*Limit{queue}}, {Pattern: "/x", Key: Global, Limits: costs, Cost: cost}}
	}
	h := g.Handler(ok200)
	for range n {
		go ask(h, "GET", "/?cost=1")
		synctest.Wait()
	}
	return h
}

// The Retry-After of who finds a queue too long is true, whatever the request
// costs, in the queue and elsewhere, and names all that refuse.
func TestHoldTellsTheWholeTruth(t *testing.T) {
	run := func(f func(t *testing.T)) { synctest.Test(t, f) }
	run(func(t *testing.T) { // the other limit refuses longer
		bucket := made(TokenBucket("bucket", Per(1, 10*time.Second), 10))
		h := behind(t, 0, &Guard{MaxDelay: 3 * time.Second}, bucket)
		require.Equal(t, 200, ask(h, "GET", "/x?cost=8").Code)
		for range 3 {
			go ask(h, "GET", "/")
			synctest.Wait()
		}
		all := obey(t, h, "/x?cost=8")
		require.Len(t, all, 2)
		assert.Equal(t, "59", all[0].Header().Get("Retry-After"), "a second has passed")
		assert.Contains(t, all[0].Body.String(), `"violated-policies":["queue","bucket"],"limit":"bucket"`)
		assert.Contains(t, all[0].Header().Get(fieldState), `"bucket";r=2;t=59`)
		assert.Equal(t, 200, all[1].Code)
	})
	run(func(t *testing.T) { // no place now, and too long a wait when there is
		h := behind(t, 5, &Guard{MaxDelay: 9 * time.Second})
		all := obey(t, h, "/?cost=8")
		require.Len(t, all, 2)
		assert.Equal(t, "4", all[0].Header().Get("Retry-After"))
		assert.Equal(t, 200, all[1].Code)
	})
	run(func(t *testing.T) { // no more may be held, and another limit refuses
		bucket := made(TokenBucket("bucket", Per(1, 10*time.Second), 10))
		h := behind(t, 0, &Guard{MaxHeld: 1}, bucket)
		require.Equal(t, 200, ask(h, "GET", "/x?cost=8").Code)
		go ask(h, "GET", "/")
		synctest.Wait()
		all := obey(t, h, "/x?cost=8")
		require.Len(t, all, 2)
		assert.Equal(t, "59", all[0].Header().Get("Retry-After"))
		assert.Equal(t, 200, all[1].Code)
	})
	run(func(t *testing.T) { // what can never be is known at once
		for _, others := range [][]*Limit{nil, {made(TokenBucket("bucket", Per(1, time.Second), 5)), made(FixedWindow("spent", 50, time.Minute, ToFirst))}} {
			h := behind(t, 3, &Guard{MaxDelay: 3 * time.Second}, others...)
			all := obey(t, h, "/x?cost=6")
			require.Len(t, all, 1)
			assert.Equal(t, 429, all[0].Code)
			assert.Contains(t, all[0].Body.String(), "Waiting will not help")
			if others == nil {
				assert.Contains(t, all[0].Body.String(), "ask for at most 3 at once")
			}
			time.Sleep(5 * time.Second)
		}
	})
	run(func(t *testing.T) { // and is not forgotten because another limit refuses for a while
		spent := made(FixedWindow("spent", 4, time.Minute, ToFirst))
		queue := made(LeakyQueue("queue", Per(1, time.Second), 10))
		h := (&Guard{MaxDelay: 3 * time.Second, Rules: []Rule{
			{Key: Global, Limits: []*Limit{spent}},
			{Key: Global, Limits: []*Limit{queue}, Cost: func(r *http.Request) int64 { return int64(len(r.URL.Path)) }},
		}}).Handler(ok200)
		assert.Equal(t, []int{200, 200, 200, 200, 429}, statuses(5, h, "GET", "/"))
		w := ask(h, "GET", "/abc")
		assert.NotContains(t, w.Header(), "Retry-After")
		assert.Contains(t, w.Body.String(), `"violated-policies":["spent","queue"],"limit":"queue"`)
	})
	run(func(t *testing.T) { // a queue that two rules charge keeps the request for both
		queue := made(LeakyQueue("queue", Per(1, time.Second), 10))
		two := func(*http.Request) int64 { return 2 }
		h := (&Guard{MaxDelay: 3 * time.Second, Rules: []Rule{
			{Key: Global, Limits: []*Limit{queue}, Cost: two}, {Pattern: "/x", Key: Global, Limits: []*Limit{queue}, Cost: two},
		}}).Handler(ok200)
		assert.NotContains(t, ask(h, "GET", "/x").Header(), "Retry-After", "4 s")
		assert.Equal(t, 200, ask(h, "GET", "/").Code)
	})
}

// A request that may not last until its turn, be it the only one, is told that
// waiting will not help, and not to come again.
func TestHoldHasty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, store := range []Store{&Memory{}, &foreign{m: &Memory{}}} {
			queue := made(LeakyQueue("queue", Per(1, 2*time.Second), 10))
			inner := (&Guard{Store: store, Rules: []Rule{{Key: Global, Limits: []*Limit{queue}}}}).Handler(ok200)
			within := func(d time.Duration) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx, cancel := context.WithTimeout(r.Context(), d)
					defer cancel()
					inner.ServeHTTP(w, r.WithContext(ctx))
				})
			}
			w := ask(within(time.Second), "GET", "/")
			assert.Equal(t, 429, w.Code)
			assert.NotContains(t, w.Header(), "Retry-After")
			assert.Contains(t, w.Body.String(), "Waiting will not help; the request needs more time.")
			go ask(inner, "GET", "/")
			synctest.Wait()
			all := obey(t, within(3*time.Second), "/")
			require.Len(t, all, 2)
			assert.Equal(t, "1", all[0].Header().Get("Retry-After"), "this one can wait its turn")
			assert.Equal(t, 200, all[1].Code)
		}
	})
}

// failing is a Store that fails when it is told to.
type failing struct {
	foreign
	down bool
}

func (f *failing) Take(ctx context.Context, c ...Charge) (Decision, error) {
	if f.down {
		return Decision{}, errors.New("down")
	}
	return f.foreign.Take(ctx, c...)
}

// What was charged in this process, since the store failed, is given back here
// and not there; and what was not charged is not given back at all.
func TestHoldRefundsWhereItCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, day := made(LeakyQueue("queue", Per(1, time.Second), 100)), made(FixedWindow("day", 3, 24*time.Hour, ToFirst))
		login := made(FixedWindow("login", 3, 24*time.Hour, ToFirst))
		queue.OnFailure, login.OnFailure = Local, Local
		store := &failing{foreign: foreign{m: &Memory{}}}
		h := (&Guard{Store: store, MaxDelay: 2 * time.Second, Rules: []Rule{{Key: Global, Limits: []*Limit{day, queue, login}}}}).Handler(ok200)
		assert.Equal(t, []int{200, 200, 200, 429}, statuses(4, h, "GET", "/"))
		store.down = true
		for range 2 {
			go ask(h, "GET", "/")
			synctest.Wait()
		}
		for range 5 {
			assert.Equal(t, 429, ask(h, "GET", "/").Code, "the queue is too long")
		}
		time.Sleep(3 * time.Second)
		assert.Equal(t, 200, ask(h, "GET", "/").Code, "the third login")
		assert.Equal(t, 429, ask(h, "GET", "/").Code)
		assert.Empty(t, store.refunded)
		store.down = false
		assert.Equal(t, []int{429, 429, 429}, statuses(3, h, "GET", "/"))

		degraded := storeFunc(func(_ context.Context, c ...Charge) (Decision, error) {
			return Decision{Allowed: true, By: c[1].Limit, Delay: time.Minute, Degraded: errors.New("down")}, nil
		})
		kept := &keeping{storeFunc: degraded}
		h = (&Guard{Store: kept, Rules: []Rule{{Key: Global, Limits: []*Limit{day, queue}}}}).Handler(ok200)
		assert.Equal(t, 429, ask(h, "GET", "/").Code)
		assert.Zero(t, kept.refunds, "the store has not said what it charged")
	})
}

// keeping counts refunds.
type keeping struct {
	storeFunc
	refunds int
}

func (k *keeping) Refund(context.Context, ...Charge) error {
	k.refunds++
	return nil
}

// Of two queues that one is named which is too long.
func TestHoldNamesTheLongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast, slow := made(LeakyQueue("fast", Per(1000, time.Second), 1000)), made(LeakyQueue("slow", Per(1, time.Second), 1000))
		for _, store := range []Store{&Memory{}, &foreign{m: &Memory{}}} {
			told := 0
			h := (&Guard{
				Store: store, MaxDelay: 2 * time.Second, Rules: []Rule{{Key: Global, Limits: []*Limit{fast, slow, window("w", 9)}}},
				Hooks: &Hooks{Refused: func(e Event) {
					told++
					assert.Same(t, slow, e.Limit)
					assert.Zero(t, e.Decision.Delay)
					for _, d := range e.Decision.Each {
						assert.True(t, !d.Allowed || d.RetryAfter == 0, "%+v", d)
					}
				}},
			}).Handler(ok200)
			for range 2 {
				go ask(h, "GET", "/")
				synctest.Wait()
			}
			w := ask(h, "GET", "/")
			assert.Equal(t, 429, w.Code)
			assert.Contains(t, w.Body.String(), `"violated-policies":["slow"],"limit":"slow"`)
			assert.Equal(t, 1, told)
			time.Sleep(time.Minute)
		}
	})
}

// Who has come when there was room does not wait behind those who found none.
func TestHoldBesideOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{MaxKeys: 10}
		queue, log := made(LeakyQueue("queue", Per(1, 5*time.Second), 10)), made(SlidingLog("log", 9, time.Hour))
		h := (&Guard{Store: m, Rules: []Rule{{Key: byHeader("User"), Limits: []*Limit{queue, log}}}}).Handler(ok200)
		short := made(FixedWindow("short", 100, time.Second, ToFirst))
		for i := range m.MaxKeys {
			require.True(t, take(t, m, short, strconv.Itoa(i), 1).Allowed)
		}
		for _, user := range []string{"a", "b"} { // share an entry
			go ask(h, "GET", "/", "User", user)
			synctest.Wait()
		}
		assert.EqualValues(t, 4, m.Stats().Overflowed, "each charge once")
		time.Sleep(1100 * time.Millisecond)
		w := ask(h, "GET", "/", "User", "c")
		assert.Equal(t, 200, w.Code)
		assert.Contains(t, w.Header().Get(fieldState), `"queue";r=9;t=0, "log";r=8;t=3595`)
		time.Sleep(time.Minute) // all have left
	})
}

// A queue that replaces another has what waits in that before it.
func TestHoldAfterReplacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{}
		old := made(LeakyQueue("queue", Per(1, time.Second), 10))
		require.True(t, take(t, m, old, "global", 9).Allowed)
		queue := made(LeakyQueue("queue", Per(1, 2*time.Second), 10)).Replacing(old)
		h := (&Guard{Store: m, Rules: []Rule{{Key: Global, Limits: []*Limit{queue}}}}).Handler(ok200)
		all := obey(t, h, "/")
		require.Len(t, all, 2)
		assert.Equal(t, "10", all[0].Header().Get("Retry-After"))
		assert.Equal(t, 200, all[1].Code)
	})
}
