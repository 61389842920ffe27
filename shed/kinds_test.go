package shed_test

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/shed"
)

// tally is what came of requests of one kind.
type tally struct{ asked, served int }

// offer sends n requests, one every so often, and says what came of them by
// kind, which is the path, once all are answered.
func offer(h http.Handler, n int, every time.Duration, next func(i int) *http.Request) map[string]tally {
	var (
		mu  sync.Mutex
		all = map[string]tally{}
		wg  sync.WaitGroup
	)
	for i := range n {
		r := next(i)
		wg.Go(func() {
			w := &answer{status: http.StatusOK}
			h.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			one := all[r.URL.Path]
			one.asked++
			if w.status == http.StatusOK {
				one.served++
			}
			all[r.URL.Path] = one
		})
		time.Sleep(every)
	}
	wg.Wait()
	return all
}

// mixed serves /slow slowly, and all else in 5 ms.
func mixed(slow time.Duration) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		took := 5 * time.Millisecond
		if r.URL.Path == "/slow" {
			took = slow
		}
		time.Sleep(took)
	})
}

// some is every k-th a /slow one, and the others /fast ones that say how long
// they have.
func some(k int, timeout string) func(i int) *http.Request {
	return func(i int) *http.Request {
		if i%k == 0 {
			return request("/slow")
		}
		return request("/fast", "Request-Timeout-Ms", timeout)
	}
}

func hurried(timeout string) func(int) *http.Request {
	return func(int) *http.Request { return request("/fast", "Request-Timeout-Ms", timeout) }
}

func plain(int) *http.Request { return request("/") }

// TestNobodyIsRefusedForTheOthersTime: that others take long is no reason to
// refuse one that would not, as long as there is room.
func TestNobodyIsRefusedForTheOthersTime(t *testing.T) {
	all := func(t *testing.T, got map[string]tally) {
		for kind, n := range got {
			assert.Equal(t, n.asked, n.served, kind)
		}
	}
	for _, k := range []int{20, 6, 3, 2} {
		synctest.Test(t, func(t *testing.T) { // a slow endpoint beside a fast one
			g := &shed.Gate{Limit: 1000}
			all(t, offer(g.Handler(mixed(time.Second)), 3000, 10*time.Millisecond, some(k, "500")))
		})
	}
	t.Run("slow readers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := &shed.Gate{Limit: 1000}
			h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(5 * time.Millisecond)
				shed.Done(r.Context(), true)
				if r.URL.Path == "/slow" {
					time.Sleep(10 * time.Second) // it is being read
				}
			}))
			all(t, offer(h, 3000, 10*time.Millisecond, some(8, "2000")))
		})
	})
	t.Run("TimeoutHandler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := &shed.Gate{Limit: 100}
			h := http.TimeoutHandler(g.Handler(mixed(900*time.Millisecond)), time.Second, "")
			all(t, offer(h, 3000, 10*time.Millisecond, some(5, "800")))
		})
	})
	t.Run("jobs of a producer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := &shed.Gate{Limit: 50}
			end := time.Now().Add(30 * time.Second)
			var jobs sync.WaitGroup
			for range 10 {
				jobs.Go(func() {
					for time.Now().Before(end) {
						release, err := g.Wait(t.Context())
						require.NoError(t, err)
						time.Sleep(2 * time.Second)
						release()
					}
				})
			}
			all(t, offer(g.Handler(mixed(0)), 1000, 30*time.Millisecond, hurried("1000")))
			jobs.Wait()
		})
	})
	t.Run("when all is well again after ten slow seconds", func(t *testing.T) {
		for _, every := range []time.Duration{500 * time.Millisecond, 20 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				g := &shed.Gate{Limit: 20}
				began := time.Now()
				h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if at := time.Since(began); at > 10*time.Second && at < 20*time.Second {
						time.Sleep(2 * time.Second)
					}
					time.Sleep(20 * time.Millisecond)
				}))
				offer(h, int(25*time.Second/every), every, hurried("500"))
				all(t, offer(h, int(100*time.Second/every), every, hurried("500")))
			})
		}
	})
}

// Under overload the fast ones that have little time still get in, as long as
// most are fast.
func TestFastOnesUnderOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 20}
		got := offer(g.Handler(mixed(time.Second)), 6000, 2500*time.Microsecond, some(10, "500"))
		assert.Positive(t, g.Stats().Refused[shed.Full])
		assert.Greater(t, got["/fast"].served, got["/fast"].asked/4)
		assert.Zero(t, g.Stats().Refused[shed.WouldMiss])
	})
}

// TestWhatIsInVain: what even the quickest does not make is not begun.
func TestWhatIsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 10}
		h := g.Handler(work(100 * time.Millisecond))
		offer(h, 50, 10*time.Millisecond, plain)
		assert.Equal(t, tally{asked: 20}, offer(h, 20, 10*time.Millisecond, hurried("50"))["/fast"])
		one := send(h, "/", "Request-Timeout-Ms", "0")
		assert.NotContains(t, one.Header(), "Retry-After", "it would have no more time")
		assert.JSONEq(t, `{"type":"about:blank","title":"Service Unavailable","status":503,`+
			`"detail":"The server could not answer before the time that this request allows is over.","reason":"would-miss"}`, one.Body.String())
		assert.EqualValues(t, 21, g.Stats().Refused[shed.WouldMiss])
	})
}

// TestQuickFailures say nothing about how quick an answer can be.
func TestQuickFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 10}
		h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				shed.Done(r.Context(), false)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}))
		offer(h, 100, 10*time.Millisecond, func(i int) *http.Request { return request([]string{"/slow", "/"}[i%2]) })
		assert.Zero(t, offer(h, 5, 10*time.Millisecond, hurried("50"))["/fast"].served)
	})
}

// TestWithoutALimitNobodyIsRefused: not even who has no time.
func TestWithoutALimitNobodyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: -1}
		h := g.Handler(work(50 * time.Millisecond))
		offer(h, 100, time.Millisecond, plain)
		assert.Equal(t, tally{20, 20}, offer(h, 20, time.Millisecond, hurried("0"))["/fast"])
		g.SetLimit(1)
		assert.Equal(t, tally{asked: 20}, offer(h, 20, time.Millisecond, hurried("0"))["/fast"])
	})
}

// TestSubCallHasItsParentsSlot: whatever is left of the time.
func TestSubCallHasItsParentsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 10}
		var sub, over error
		h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond)
			if r.URL.Path == "/sub" {
				slot, err := g.Enter(r.Context(), shed.Entry{})
				slot.Leave()
				sub = err
				time.Sleep(time.Second)
				_, over = g.Enter(context.WithoutCancel(r.Context()), shed.Entry{Timeout: -1})
			}
		}))
		offer(h, 50, 10*time.Millisecond, plain)
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		h.ServeHTTP(&answer{}, request("/sub").WithContext(ctx))
		assert.NoError(t, sub)
		assert.ErrorContains(t, over, "would-miss")
	})
}

// TestWhoComesTooLateKeepsNobodyAway: junk deadlines are refused, and nobody else
// is told to stay away for longer.
func TestWhoComesTooLateKeepsNobodyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 10, Queue: -1}
		h := g.Handler(work(20 * time.Millisecond))
		offer(h, 100, 10*time.Millisecond, plain)
		for _, timeout := range []string{"0", "5"} { // over, and too short for anything
			got := offer(h, 600, 100*time.Millisecond, hurried(timeout))
			if timeout == "0" {
				require.Zero(t, got["/fast"].served)
			}
		}
		for _, c := range startAll(h, 11, "/") {
			<-c.ended
			if c.Code != http.StatusOK {
				assert.LessOrEqual(t, c.Header().Get("Retry-After"), "2")
			}
		}
		assert.EqualValues(t, 1, g.Stats().Refused[shed.Full])
	})
}

// TestReasonIsTheReason: a deadline that is far away is not what is missed.
func TestReasonIsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: 1000, MaxWait: time.Second, Tenant: byHeader("Tenant")}
		h := g.Handler(work(50 * time.Millisecond))
		offer(h, 50, 50*time.Millisecond, plain)
		start(h, request("/", "Tenant", "other"))
		synctest.Wait()
		start(h, request("/", "Tenant", "other"))
		synctest.Wait()
		all := startAll(h, 40, "/", "Request-Timeout-Ms", "3600000", "Tenant", "a")
		await(all...)
		stats := g.Stats()
		assert.Zero(t, stats.Refused[shed.WouldMiss])
		assert.GreaterOrEqual(t, stats.Refused[shed.OverShare], int64(15), "%v", stats.Refused)
	})
}

// TestAVeryLongMaxWait is as good as none.
func TestAVeryLongMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, MaxWait: math.MaxInt64}
		first, err := g.Enter(t.Context(), shed.Entry{})
		require.NoError(t, err)
		time.AfterFunc(time.Hour, first.Leave)
		began := time.Now()
		_, err = g.Enter(t.Context(), shed.Entry{})
		assert.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(began))
	})
}
