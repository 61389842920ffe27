package retry

import (
	"context"
	"fmt"
	"net/http"
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
	state   *State
	limit   time.Duration
	up      upload
	down    download

	at    int64 // when its time is over, in the state's time
	slot  *atomic.Pointer[flight]
	timer *time.Timer

	mu       sync.Mutex
	over     bool // the attempt has its answer or its error: no watch any more
	err      error
	done     chan struct{}
	waiting  []*waiter
	leave    func() bool // takes back the registration with the caller's context
	detached bool
}

type waiter struct{ f func() }

// newFlight copies r for an attempt of at most limit.
func newFlight(s *State, r *http.Request, ctx context.Context, limit time.Duration) *flight {
	f := &flight{caller: ctx, state: s, limit: limit}
	f.request = *r.WithContext(f)
	return f
}

// begin starts the watch. A request with a body is watched from the end of its
// upload.
func (f *flight) begin(started time.Time) {
	if b := f.request.Body; b != nil && b != http.NoBody {
		f.up = upload{body: b, flight: f}
		f.request.Body = &f.up
		return
	}
	f.watch(started)
}

func (f *flight) watch(started time.Time) {
	now := started.Sub(f.state.epoch)
	f.state.watchFlight(f, int64(now), int64(now+f.limit))
}

// uploaded starts the watch at the end of the upload, wherever that is noticed.
func (f *flight) uploaded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over && f.slot == nil && f.timer == nil && f.err == nil {
		f.watch(f.state.now())
	}
}

// end stops the watch. It reports whether the time was over.
func (f *flight) end() (expired bool) {
	if f.up.flight == nil {
		return !f.unwatch() // nobody else looks at it
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	return !f.unwatch()
}

// expire ends the context of an attempt whose time is over.
func (f *flight) expire() {
	f.finish(context.DeadlineExceeded)
}

// callerEnded ends the context as the caller's ended.
func (f *flight) callerEnded() {
	f.finish(f.caller.Err())
}

func (f *flight) finish(err error) {
	f.mu.Lock()
	if f.err != nil {
		f.mu.Unlock()
		return
	}
	f.err = err
	if f.done != nil {
		close(f.done)
	}
	waiting, leave := f.waiting, f.leave
	f.waiting, f.leave = nil, nil
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
	f.mu.Lock()
	leave := f.leave
	f.leave, f.detached = nil, true
	f.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// isAttached reports whether somebody waits for the context's end, so that it
// stands registered with the caller's.
func (f *flight) isAttached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leave != nil
}

// Deadline is the caller's: when the attempt's time is over is not known before
// the end of its upload.
func (f *flight) Deadline() (time.Time, bool) { return f.caller.Deadline() }

// Value is the caller's.
func (f *flight) Value(key any) any { return f.caller.Value(key) }

func (f *flight) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	return f.caller.Err()
}

func (f *flight) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done != nil {
		return f.done
	}
	f.done = make(chan struct{})
	if f.err != nil {
		close(f.done)
	} else {
		f.attach()
	}
	return f.done
}

// AfterFunc is what package context asks a foreign context for (see
// context.AfterFunc), so that contexts derived from this one need no goroutine.
func (f *flight) AfterFunc(fn func()) (stop func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		go fn()
		return func() bool { return false }
	}
	f.attach()
	w := &waiter{fn}
	f.waiting = append(f.waiting, w)
	return func() bool { return f.forget(w) }
}

// attach registers with the caller's context, once, and only if it can end.
func (f *flight) attach() {
	if f.leave == nil && !f.detached && f.caller.Done() != nil {
		f.leave = context.AfterFunc(f.caller, f.callerEnded)
	}
}

func (f *flight) forget(w *waiter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, have := range f.waiting {
		if have == w {
			last := len(f.waiting) - 1
			f.waiting[i], f.waiting[last] = f.waiting[last], nil
			f.waiting = f.waiting[:last]
			return true
		}
	}
	return false
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
