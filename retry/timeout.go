package retry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// flight is one attempt with a timeout: the copy of the request and its context
// in one allocation, for every call of a Transport with an AttemptTimeout makes
// one. The context ends with the caller's, as any other, and when the attempt
// takes too long; once the response's header is there, only with the caller's.
//
// It is made by hand because a context of package context costs three
// allocations and registers with the caller's context whether or not anybody
// ever asks for it.
type flight struct {
	request http.Request
	caller  context.Context

	at    int64                   // when its time is over, in the owner's time
	place uint32                  // which slot it asks for first
	slot  *atomic.Pointer[flight] // where it is watched; nil: not, or by a timer
	up    *upload                 // nil: no body
	due   atomic.Bool             // the watchdog is about to take it out of its slot

	mu   sync.Mutex // guards what ends points to
	ends atomic.Pointer[ending]
}

// ending is what a flight needs when somebody waits for its end, or when its
// time is over. In between, which is most of the time, it has none.
type ending struct {
	timer    *time.Timer // of a flight that found no slot
	landed   bool        // and whose answer is there
	err      error
	done     chan struct{}
	waiting  []*waiter
	leave    func() bool // takes back the registration with the caller's context
	detached bool
	down     download
}

type waiter struct{ f func() }

// newFlight copies r for an attempt with a timeout. Flights are never used
// again, for a base may keep a request; but those without a body, whose memory
// matters to nobody, are made a few at a time, which costs a third less.
func (c *Call) newFlight(r *http.Request, ctx context.Context) *flight {
	var f *flight
	switch {
	case !c.bodiless:
		f = new(flight)
	case c.flights == nil || c.flown == len(c.flights):
		c.flights, c.flown = new([8]flight), 0
		fallthrough
	default:
		f = &c.flights[c.flown]
		c.flown++
	}
	if c.place == 0 { // where the last one found room, there is room again
		c.place = rand.Uint32() | 1
	}
	f.caller, f.place = ctx, c.place
	f.request = *r.WithContext(f)
	return f
}

// begin starts the watch. A request with a body is watched from the end of its
// upload, which a wrapper of the body sees; or by trace events, and until one
// shows that the base reports them, from its departure.
func (f *flight) begin(s *State, now, limit time.Duration, events bool) {
	if b := f.request.Body; b != nil && b != http.NoBody {
		f.up = &upload{flight: f, state: s, limit: limit, early: events}
		if !events {
			f.up.ReadCloser, f.request.Body = b, f.up
			return
		}
	}
	f.watch(s, now, limit)
}

// watch begins the watch at now, in the owner's time.
func (f *flight) watch(s *State, now, limit time.Duration) {
	s.watchFlight(f, int64(now), int64(now+limit))
}

// end stops the watch. It reports whether the time was over.
func (f *flight) end() (expired bool) {
	if f.up == nil {
		return !f.unwatch() // nobody else looks at it
	}
	f.up.mu.Lock()
	defer f.up.mu.Unlock()
	f.up.over.Store(true)
	return !f.unwatch()
}

// ending returns what guards f's end. The caller holds f.mu.
func (f *flight) ending() *ending {
	e := f.ends.Load()
	if e == nil {
		e = new(ending)
		f.ends.Store(e)
	}
	return e
}

// expire ends the context of an attempt whose time is over.
func (f *flight) expire() { f.finish(context.DeadlineExceeded) }

// callerEnded ends the context as the caller's ended.
func (f *flight) callerEnded() { f.finish(f.caller.Err()) }

func (f *flight) finish(err error) {
	f.mu.Lock()
	e := f.ending()
	if e.err != nil {
		f.mu.Unlock()
		return
	}
	e.err = err
	if e.done != nil {
		close(e.done)
	}
	waiting, leave := e.waiting, e.leave
	e.waiting, e.leave = nil, nil
	f.mu.Unlock()
	if leave != nil {
		leave()
	}
	for _, w := range waiting {
		go w.f() // in a goroutine of its own, as context.AfterFunc promises
	}
}

// detach takes back the registration with the caller's context, which would
// otherwise hold the flight as long as that lives. Nobody needs its end any
// more: the response's body was read or closed, or there is none.
func (f *flight) detach() {
	if f.ends.Load() == nil {
		return
	}
	f.mu.Lock()
	e := f.ending()
	leave := e.leave
	e.leave, e.detached = nil, true
	f.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// isAttached reports whether somebody waits for the context's end, so that it
// stands registered with the caller's.
func (f *flight) isAttached() bool {
	if f.ends.Load() == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ending().leave != nil
}

// hasLanded reports whether the attempt has its answer, or its error. From then
// on the flight is nothing but the caller's context: who asks for its end is
// given that one's, so that nothing stands registered there for a base that asks
// late. Those who asked before keep what they have. The caller holds f.mu, and
// f.ends is set.
func (f *flight) hasLanded(e *ending) bool {
	switch {
	case e.leave != nil || e.detached:
		return false
	case f.up != nil:
		return f.up.over.Load() && !f.due.Load()
	case f.slot != nil:
		return f.slot.Load() != f && !f.due.Load()
	}
	return e.landed
}

// Deadline is the caller's: when the attempt's time is over is not known before
// the end of its upload.
func (f *flight) Deadline() (time.Time, bool) { return f.caller.Deadline() }

// Value is the caller's.
func (f *flight) Value(key any) any { return f.caller.Value(key) }

func (f *flight) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.ends.Load(); e != nil && e.err != nil {
		return e.err
	}
	return f.caller.Err()
}

func (f *flight) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.ending()
	if e.done != nil {
		return e.done
	}
	if e.err == nil && f.hasLanded(e) {
		return f.caller.Done()
	}
	e.done = make(chan struct{})
	if e.err != nil {
		close(e.done)
	} else {
		f.attach(e)
	}
	return e.done
}

// AfterFunc is what package context asks a foreign context for (see
// context.AfterFunc), so that contexts derived from this one need no goroutine.
func (f *flight) AfterFunc(fn func()) (stop func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.ending()
	if e.err != nil {
		go fn()
		return func() bool { return false }
	}
	if f.hasLanded(e) {
		return context.AfterFunc(f.caller, fn)
	}
	f.attach(e)
	w := &waiter{fn}
	e.waiting = append(e.waiting, w)
	return func() bool { return f.forget(w) }
}

// attach registers with the caller's context, once, and only if it can end.
func (f *flight) attach(e *ending) {
	if e.leave == nil && !e.detached && f.caller.Done() != nil {
		e.leave = context.AfterFunc(f.caller, f.callerEnded)
	}
}

func (f *flight) forget(w *waiter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.ending()
	i := slices.Index(e.waiting, w)
	if i < 0 {
		return false
	}
	e.waiting = slices.Delete(e.waiting, i, i+1)
	return true
}

// timeoutError is how an attempt ends that took too long.
type timeoutError struct {
	after time.Duration
	err   error // what the base made of it
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("retry: attempt timeout: no response header within %s", e.after)
}

func (e *timeoutError) Timeout() bool { return true }

func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

func (e *timeoutError) Unwrap() error { return e.err }
