package retry

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// registry is a caller's context that counts who stands registered with it.
type registry struct {
	context.Context
	registered atomic.Int64
}

func (c *registry) Value(any) any { return nil } // hides the cancelCtx below

func (c *registry) AfterFunc(fn func()) (stop func() bool) {
	c.registered.Add(1)
	inner := context.AfterFunc(c.Context, fn)
	var once sync.Once
	return func() bool {
		once.Do(func() { c.registered.Add(-1) })
		return inner()
	}
}

// fill occupies all slots until the returned function is called, so that who
// comes then has a timer of its own.
func (w *watchdog) fill(at int64) (empty func()) {
	other := new(ending)
	other.at.Store(at)
	for i := range w.slots {
		w.slots[i].Store(other)
	}
	return func() {
		for i := range w.slots {
			w.slots[i].CompareAndSwap(other, nil)
		}
	}
}

// askers are what may be asked of a flight, by any goroutine and at any time.
// Each leaves nothing behind itself.
var askers = []func(context.Context){
	func(ctx context.Context) { ctx.Done() },
	func(ctx context.Context) { _ = ctx.Err() },
	func(ctx context.Context) { ctx.(*flight).AfterFunc(func() {})() },
	func(ctx context.Context) { context.AfterFunc(ctx, func() {})() },
	func(ctx context.Context) {
		_, cancel := context.WithTimeout(ctx, time.Hour)
		cancel()
	},
}

// landing is a flight with a caller, before it is sent.
type landing struct {
	state  State
	caller registry
	call   Call
	flight *flight
	up     *upload // nil: it has no body
}

func newLanding(caller context.Context, body bool) *landing {
	l := new(landing)
	l.state.begin()
	l.caller.Context = caller
	l.call.State = &l.state
	if body {
		l.up = l.call.newUpload(time.Minute, true, 1)
		l.flight = &l.up.flight
	} else {
		l.flight = l.call.newFlight(time.Minute)
	}
	r, _ := http.NewRequest("GET", "http://a/", nil)
	l.flight.copy(r, &l.caller)
	return l
}

// end is what happens after the base has answered, and the body was read.
func (l *landing) end() {
	if e := l.flight.land(); e != nil && e.isAttached() {
		e.detach()
	}
}

// isGone wants nothing left of a flight that ended well: no slot, no timer, no
// registration, and no end.
func (l *landing) isGone(t *testing.T) {
	t.Helper()
	assert.Zero(t, l.state.watch.occupied())
	assert.Zero(t, l.caller.registered.Load())
	if e := l.flight.asked(); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		assert.True(t, e.landed)
		assert.Zero(t, e.at.Load())
		assert.Nil(t, e.slot)
		assert.Nil(t, e.timer)
		assert.NoError(t, e.err)
	}
}

// Who asks at the very moment of landing either was in time, and what was begun
// for him is taken back, or hears of the caller's end.
func TestAskersAtTheMomentOfLanding(t *testing.T) {
	for _, body := range []bool{false, true} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("body %v, busy %v", body, busy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var landings []*landing
					for i := range 500 {
						l := newLanding(t.Context(), body)
						landings = append(landings, l)
						empty := func() {}
						if busy {
							empty = l.state.watch.fill(1 << 62)
						}
						var group sync.WaitGroup
						begin := make(chan struct{})
						together := func(f func()) {
							group.Go(func() {
								<-begin
								f()
							})
						}
						for k, ask := range askers {
							if k == i%len(askers) || i%7 == 0 {
								together(func() { ask(l.flight) })
							}
						}
						if body {
							if i%3 == 0 {
								l.up.own.phase.Store(unsure)
								together(l.up.begun)
							}
							together(l.up.end)
							together(l.up.end)
						}
						together(l.end)
						close(begin)
						group.Wait()
						empty()
						l.isGone(t)
						for _, ask := range askers {
							ask(l.flight)
						}
						l.isGone(t)
					}
					time.Sleep(time.Hour) // no timer is left that would end one
					for _, l := range landings {
						l.isGone(t)
						assert.NoError(t, l.flight.Err())
						select {
						case <-l.flight.Done():
							t.Error("ended after it has landed")
						default:
						}
					}
				})
			})
		}
	}
}

// However many ask at once, one watch is begun, and all of them hear of its end.
func TestOneWatchForAllWhoAsk(t *testing.T) {
	for _, body := range []bool{false, true} {
		for _, busy := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				for i := range 200 {
					ctx, cancel := context.WithCancel(t.Context())
					l := newLanding(ctx, body)
					empty := func() {}
					if busy {
						empty = l.state.watch.fill(1 << 62)
					}
					var group sync.WaitGroup
					begun := time.Now()
					for range 4 {
						group.Go(func() { <-l.flight.Done() })
						group.Go(func() {
							derived, cancel := context.WithCancel(l.flight)
							defer cancel()
							<-derived.Done()
						})
					}
					if body {
						if i%2 == 0 {
							l.up.own.phase.Store(unsure)
							group.Go(l.up.begun)
						}
						group.Go(l.up.end)
					}
					synctest.Wait()
					if empty(); !busy {
						assert.Equal(t, 1, l.state.watch.occupied())
					}
					assert.EqualValues(t, 1, l.caller.registered.Load())
					group.Wait()
					assert.Equal(t, time.Minute, time.Since(begun))
					assert.ErrorIs(t, l.flight.Err(), context.DeadlineExceeded)
					assert.Zero(t, l.state.watch.occupied())
					assert.True(t, l.flight.land().expired)
					assert.Zero(t, l.caller.registered.Load())
					cancel()
				}
			})
		}
	}
}

// An attempt lands as its time runs out: either of both, and for everybody.
func TestLandingAsTheTimeRunsOut(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			for range 500 {
				l := newLanding(t.Context(), false)
				done := l.flight.Done()
				if busy {
					e := l.flight.asked()
					e.mu.Lock()
					e.unwatch()
					empty := l.state.watch.fill(1 << 62)
					l.flight.watch(e)
					empty()
					e.mu.Unlock()
				}
				time.Sleep(time.Minute) // the watchdog wakes up at the same instant
				e := l.flight.land()
				synctest.Wait()
				if e.expired {
					<-done
					assert.ErrorIs(t, l.flight.Err(), context.DeadlineExceeded)
				} else {
					e.expire(1 << 62) // a hand of the watchdog that comes late
					assert.NoError(t, l.flight.Err())
					select {
					case <-done:
						t.Error("landed, and yet it ended")
					default:
					}
				}
				e.detach()
				assert.Zero(t, l.state.watch.occupied())
				assert.Zero(t, l.caller.registered.Load())
			}
		})
	}
}

// A watch that was lifted and begun anew is not ended by what was due before.
func TestWatchBegunAnew(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLanding(t.Context(), true)
			if busy {
				l.state.watch.fill(1 << 62)
			}
			l.up.own.phase.Store(unsure)
			done := l.flight.Done()
			e := l.flight.asked()
			before := e.at.Load()
			time.Sleep(30 * time.Second)
			l.up.begun()
			assert.Zero(t, e.at.Load())
			time.Sleep(time.Hour)
			l.up.end()
			e.expire(before) // the hand of the watchdog, that comes late
			require.NoError(t, l.flight.Err())
			begun := time.Now()
			<-done
			assert.Equal(t, time.Minute, time.Since(begun))
			e.detach()
		})
	}
}

// Who finds no slot has a timer, which ends with the attempt.
func TestTimerEndsWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanding(t.Context(), false)
		empty := l.state.watch.fill(1 << 62)
		l.flight.Done()
		timer := l.flight.asked().timer
		l.end()
		assert.False(t, timer.Stop(), "it was stopped")
		empty()
		l.isGone(t)
	})
}

// A caller who leaves during the upload ends the attempt once and for all.
func TestUploadGoesOnAfterTheCallerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newLanding(ctx, true)
		done := l.flight.Done()
		cancel()
		<-done
		l.up.end()
		assert.Zero(t, l.state.watch.occupied())
		time.Sleep(time.Hour)
		assert.ErrorIs(t, l.flight.Err(), context.Canceled)
		assert.False(t, l.flight.land().expired)
	})
}

// The end of an upload may overtake the event before it.
func TestUploadEndsWhileItsBeginIsReported(t *testing.T) {
	l := newLanding(t.Context(), true)
	l.up.own.phase.Store(unsure)
	l.flight.Done()
	e := l.flight.asked()
	e.mu.Lock()
	reported := make(chan struct{})
	go func() {
		l.up.begun()
		close(reported)
	}()
	for l.up.own.phase.Load() != uploading {
		runtime.Gosched()
	}
	l.up.own.since.Store(0) // what end does
	l.up.own.phase.Store(uploaded)
	l.flight.watch(e)
	e.mu.Unlock()
	<-reported
	assert.NotZero(t, e.at.Load(), "it is watched")
	l.end()
}

// Where no event shows the begin, the time counts from the end all the same.
func TestUploadEndsAndItsBeginIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanding(t.Context(), true)
		l.up.own.phase.Store(unsure)
		begun, done := time.Now(), l.flight.Done()
		time.Sleep(30 * time.Second)
		l.up.end()
		<-done
		assert.Equal(t, 90*time.Second, time.Since(begun))
		l.flight.land().detach()
	})
}

// Done is the same before and after.
func TestDoneStays(t *testing.T) {
	l := newLanding(context.Background(), false)
	before := l.flight.Done()
	l.end()
	assert.Equal(t, before, l.flight.Done())
}

// A base that has asked and panics leaves nothing with the caller's context.
func TestPanicLeavesTheCallersContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	caller := &registry{Context: ctx}
	tr := &Transport{Policy: &Policy{AttemptTimeout: time.Minute}}
	tr.Base = baseFunc(func(r *http.Request) (*http.Response, error) {
		r.Context().Done()
		assert.EqualValues(t, 1, caller.registered.Load())
		panic("base")
	})
	r, _ := http.NewRequestWithContext(caller, "GET", "http://a/", nil)
	assert.Panics(t, func() { _, _ = tr.RoundTrip(r) })
	assert.Zero(t, caller.registered.Load())
}
