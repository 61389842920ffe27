package retry

import (
	"context"
	"fmt"
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

	at     int64                   // when its time is over, in the owner's time
	slot   *atomic.Pointer[flight] // where it is watched; nil: not, or by a timer
	ends   atomic.Pointer[ending]
	loaded bool          // it has a body: it is part of an upload
	state  atomic.Uint32 // due and over, if they hold
}

const (
	due  = 1 << iota // the watchdog is about to take it out of its slot
	over             // it has a body, and its answer or its error: no watch any more
)

// ending is what a flight needs when somebody waits for its end, or when its
// time is over. In between, which is most of the time, it has none.
type ending struct {
	mu       sync.Mutex
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

// Flights are never used again, for a base may keep a request. But they are
// made a few at a time, which costs a third less: as many as fill a size class
// of the runtime's, and of those with a body, whose memory matters, only small
// ones.
const (
	flightsAtOnce = 9
	uploadsAtOnce = 10
	smallBody     = 4 << 10
)

func (c *Call) newFlight() *flight {
	if c.flights == nil || c.flown == len(c.flights) {
		c.flights, c.flown = new([flightsAtOnce]flight), 0
	}
	c.flown++
	return &c.flights[c.flown-1]
}

// newUpload is newFlight for a request with a body, of which the size is known
// if it is in memory.
func (c *Call) newUpload(inMemory bool, size int64) *upload {
	if !inMemory || size <= 0 || size > smallBody {
		return new(upload)
	}
	if c.uploads == nil || c.uploaded == len(c.uploads) {
		c.uploads, c.uploaded = new([uploadsAtOnce]upload), 0
	}
	c.uploaded++
	return &c.uploads[c.uploaded-1]
}

// copy makes f's request of r.
func (f *flight) copy(r *http.Request, caller context.Context) *http.Request {
	f.caller = caller
	f.request = *r.WithContext(f)
	return &f.request
}

// land stops the watch. It reports whether the time was over.
func (f *flight) land(up *upload) (expired bool) {
	if up == nil {
		return !f.unwatch() // nobody else looks at it
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	f.state.Or(over)
	return !f.unwatch()
}

// ending returns what tells f's end.
func (f *flight) ending() *ending {
	if e := f.ends.Load(); e != nil {
		return e
	}
	f.ends.CompareAndSwap(nil, new(ending))
	return f.ends.Load()
}

// expire ends the context of an attempt whose time is over.
func (f *flight) expire() { f.finish(context.DeadlineExceeded) }

// callerEnded ends the context as the caller's ended.
func (f *flight) callerEnded() { f.finish(f.caller.Err()) }

func (f *flight) finish(err error) {
	e := f.ending()
	e.mu.Lock()
	if e.err != nil {
		e.mu.Unlock()
		return
	}
	e.err = err
	if e.done != nil {
		close(e.done)
	}
	waiting, leave := e.waiting, e.leave
	e.waiting, e.leave = nil, nil
	e.mu.Unlock()
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
	e := f.ends.Load()
	if e == nil {
		return
	}
	e.mu.Lock()
	leave := e.leave
	e.leave, e.detached = nil, true
	e.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// isAttached reports whether somebody waits for the context's end, so that it
// stands registered with the caller's.
func (f *flight) isAttached() bool {
	e := f.ends.Load()
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leave != nil
}

// hasLanded reports whether the attempt has its answer, or its error. From then
// on the flight is nothing but the caller's context: who asks for its end is
// given that one's, so that nothing stands registered there for a base that asks
// late. Those who asked before keep what they have. The caller holds e.mu, and
// f.ends is set.
func (f *flight) hasLanded(e *ending) bool {
	switch {
	case e.leave != nil || e.detached:
		return false
	case f.loaded:
		return f.state.Load() == over // and not due
	case f.slot != nil:
		return f.slot.Load() != f && f.state.Load() != due
	}
	return e.landed
}

// Deadline is the caller's: when the attempt's time is over is not known before
// the end of its upload.
func (f *flight) Deadline() (time.Time, bool) { return f.caller.Deadline() }

// Value is the caller's.
func (f *flight) Value(key any) any { return f.caller.Value(key) }

func (f *flight) Err() error {
	if e := f.ends.Load(); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.err != nil {
			return e.err
		}
	}
	return f.caller.Err()
}

func (f *flight) Done() <-chan struct{} {
	e := f.ending()
	e.mu.Lock()
	defer e.mu.Unlock()
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
	e := f.ending()
	e.mu.Lock()
	defer e.mu.Unlock()
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
	e := f.ending()
	e.mu.Lock()
	defer e.mu.Unlock()
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
