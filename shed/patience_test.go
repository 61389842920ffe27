package shed_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/shed"
)

// impatient sends so many requests a second for a while, of clients who give up
// after patience, and says how many a second were answered in time in the last
// part of it.
func impatient(h http.Handler, rate int, period, last, patience time.Duration, byDeadline bool) float64 {
	var (
		wg    sync.WaitGroup
		good  atomic.Int64
		began = time.Now()
	)
	for range rate * int(period/time.Second) {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if byDeadline {
				ctx, cancel = context.WithTimeout(ctx, patience)
				defer cancel()
			} else {
				stop := time.AfterFunc(patience, cancel)
				defer stop.Stop()
			}
			came, w := time.Now(), &answer{status: http.StatusOK}
			h.ServeHTTP(w, request("/").WithContext(ctx))
			if w.status == http.StatusOK && time.Since(came) < patience && came.Sub(began) > period-last {
				good.Add(1)
			}
		})
		time.Sleep(time.Second / time.Duration(rate))
	}
	wg.Wait()
	return float64(good.Load()) / last.Seconds()
}

// few are workers that take so long. Those that heed give up with their client
// while they wait for one.
type few struct {
	workers chan struct{}
	takes   time.Duration
	heed    bool
}

func (f *few) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var gone <-chan struct{}
	if f.heed {
		gone = r.Context().Done()
	}
	select {
	case f.workers <- struct{}{}:
		time.Sleep(f.takes)
		<-f.workers
	case <-gone:
	}
}

// TestClientsThatGiveUp: in an overload in which everybody leaves before the
// answer an adaptive limit still learns that it is too much, from when they left.
func TestClientsThatGiveUp(t *testing.T) {
	for _, byDeadline := range []bool{false, true} {
		for _, heed := range fewer([]bool{false, true}) {
			name := fmt.Sprintf("deadline=%v,heed=%v", byDeadline, heed)
			t.Run(name, func(t *testing.T) {
				median(t, func() (good float64, at int) {
					g := &shed.Gate{Adaptive: &shed.Adaptive{Min: 1, Initial: 20}}
					h := g.Handler(&few{make(chan struct{}, 1), 50 * time.Millisecond, heed})
					good = impatient(h, 60, 150*time.Second, 60*time.Second, 500*time.Millisecond, byDeadline)
					return good, limit(g)
				})
			})
		}
		t.Run(fmt.Sprintf("deadline=%v, workers that go", byDeadline), func(t *testing.T) {
			large(t)
			synctest.Test(t, func(t *testing.T) {
				g := &shed.Gate{Adaptive: &shed.Adaptive{Min: 4}}
				f := &few{make(chan struct{}, 20), 20 * time.Millisecond, false}
				h := g.Handler(f)
				impatient(h, 800, 10*time.Second, time.Second, 500*time.Millisecond, byDeadline)
				for range 19 {
					f.workers <- struct{}{}
				}
				impatient(h, 800, 15*time.Second, time.Second, 500*time.Millisecond, byDeadline)
				good := impatient(h, 800, 10*time.Second, 10*time.Second, 500*time.Millisecond, byDeadline)
				assert.GreaterOrEqual(t, good, .95*50, "of 50 a second")
				for range 19 {
					<-f.workers
				}
				impatient(h, 800, 10*time.Second, time.Second, 500*time.Millisecond, byDeadline)
				good = impatient(h, 800, 5*time.Second, 5*time.Second, 500*time.Millisecond, byDeadline)
				assert.GreaterOrEqual(t, good, .98*800)
			})
		})
	}
}

// TestEntriesThatGiveUp is the same for what does not come by HTTP, where only a
// deadline tells.
func TestEntriesThatGiveUp(t *testing.T) {
	median(t, func() (good float64, at int) {
		g := &shed.Gate{Adaptive: &shed.Adaptive{Min: 1, Initial: 20}}
		f := &few{make(chan struct{}, 1), 50 * time.Millisecond, true}
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			slot, err := g.Enter(r.Context(), shed.Entry{})
			if err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			defer slot.Leave()
			f.ServeHTTP(w, r)
		})
		good = impatient(h, 60, 150*time.Second, 60*time.Second, 500*time.Millisecond, true)
		return good, limit(g)
	})
}

// median holds the median of five gates, each with a seed of its own, to nearly all
// of 20 a second, and to a limit that keeps no more waiting than that. One in some
// fifty may just then be looking for a limit again.
func median(t *testing.T, run func() (good float64, limit int)) {
	t.Helper()
	var good []float64
	var limits []int
	for range fewer(make([]struct{}, 5)) {
		synctest.Test(t, func(*testing.T) {
			g, l := run()
			good, limits = append(good, g), append(limits, l)
		})
	}
	if len(good) < 5 {
		return // one alone is held to nothing
	}
	slices.Sort(good)
	slices.Sort(limits)
	assert.GreaterOrEqual(t, good[2], .95*20, "of 20 a second: %v", good)
	assert.LessOrEqual(t, limits[2], 4, "%v", limits)
}

// TestWhoLeavesWhileItReads was served, as far as the work goes.
func TestWhoLeavesWhileItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Adaptive: &shed.Adaptive{Min: 4, Initial: 20}}
		h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * time.Millisecond)
			shed.Done(r.Context(), true)
			<-r.Context().Done()
		}))
		impatient(h, 200, 20*time.Second, time.Second, 100*time.Millisecond, false)
		assert.GreaterOrEqual(t, limit(g), 20)
	})
}

// TestWhoLeavesForOtherReasons: clients that leave early, as those do who ask
// with every key that is pressed, lower no limit of a server that can bear them.
func TestWhoLeavesForOtherReasons(t *testing.T) {
	for _, early := range fewer([]time.Duration{time.Millisecond, 45 * time.Millisecond}) {
		for _, share := range fewer([]int{3, 9}) { // of ten
			synctest.Test(t, func(t *testing.T) {
				g := &shed.Gate{Adaptive: &shed.Adaptive{Min: 4}}
				h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(50 * time.Millisecond):
					case <-r.Context().Done():
					}
				}))
				ask := func(n int) tally {
					return offer(h, n, time.Millisecond, func(i int) *http.Request {
						r := request("/stays")
						if i%10 < share {
							r = request("/leaves")
							ctx, cancel := context.WithCancel(r.Context())
							time.AfterFunc(early, cancel)
							r = r.WithContext(ctx)
						}
						return r
					})["/stays"]
				}
				ask(15_000)
				n := ask(5_000)
				assert.GreaterOrEqual(t, n.served, n.asked*98/100, "%d of ten leave after %v", share, early)
			})
		}
	}
}
