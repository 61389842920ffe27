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
// ever asks for it. For the same reason it is watched only from when somebody
// asks for its end, which net/http does at once: a base that never does cannot
// be interrupted anyway.
type flight struct {
	request http.Request
	caller  context.Context
	terms   *terms
	ends    atomic.Pointer[ending] // nil: nobody has asked yet; unasked: nor will
}

// terms are how a flight is watched. Flights without a body share those of their
// Call, for they do not change; an upload has its own.
type terms struct {
	owner *State
	limit time.Duration
	phase atomic.Uint32
	since atomic.Int64 // if uploaded: when, in owner's time
}

// The phases of an attempt.
const (
	uploading = iota // not watched
	bodiless         // watched from when somebody asks
	unsure           // as bodiless, for nothing shows yet that the end of the body will be seen
	uploaded         // watched from that end on
)

// ending is what a flight needs when somebody waits for its end. Most have none.
type ending struct {
	at atomic.Int64 // when its time is over, in the owner's time; zero: not watched

	mu       sync.Mutex
	slot     *atomic.Pointer[ending] // where it is watched
	timer    *time.Timer             // of one that found no slot
	landed   bool                    // the answer is there, or the error: no watch any more
	expired  bool                    // err is the watch's
	detached bool
	err      error
	done     chan struct{}
	waiting  []*waiter
	leave    func() bool // takes back the registration with the caller's context
	down     download
}

// unasked stands for the ending of a flight that landed before anybody asked
// for one. Nothing is ever written to it.
var unasked = new(ending)

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

func (c *Call) newFlight(limit time.Duration) *flight {
	if c.flights == nil || c.flown == len(c.flights) {
		c.flights, c.flown = new([flightsAtOnce]flight), 0
	}
	f := &c.flights[c.flown]
	c.flown++
	if c.terms == nil || c.terms.limit != limit || c.terms.owner != c.State {
		c.terms = &terms{owner: c.State, limit: limit}
		c.terms.phase.Store(bodiless)
	}
	f.terms = c.terms
	return f
}

// newUpload is newFlight for a request with a body, of which the size is known
// if it is in memory.
func (c *Call) newUpload(limit time.Duration, inMemory bool, size int64) *upload {
	u := c.uploadMemory(inMemory && size > 0 && size <= smallBody)
	u.own.owner, u.own.limit = c.State, limit
	u.terms = &u.own
	return u
}

func (c *Call) uploadMemory(small bool) *upload {
	if !small {
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

// ask returns what tells f's end, locked. Who asks first begins the watch. It
// returns nil if the attempt has landed: it has its answer, or its error. From
// then on the flight is nothing but the caller's context: who asks for its end
// is given that one's, so that nothing stands registered there for a base that
// asks late. Those who asked before keep what they have.
func (f *flight) ask() *ending {
	e := f.ends.Load()
	if e == nil {
		e = new(ending)
		e.mu.Lock() // whoever finds it waits until it is watched
		if f.ends.CompareAndSwap(nil, e) {
			f.watch(e)
			return e
		}
		e = f.ends.Load()
	}
	if e == unasked {
		return nil
	}
	e.mu.Lock()
	if e.landed && e.err == nil && e.done == nil && e.leave == nil && !e.detached {
		e.mu.Unlock()
		return nil
	}
	return e
}

// asked is what tells f's end; nil: nobody has asked.
func (f *flight) asked() *ending {
	if e := f.ends.Load(); e != unasked {
		return e
	}
	return nil
}

// watch begins the watch unless there is one, or none is due. The caller holds
// e.mu.
func (f *flight) watch(e *ending) {
	t := f.terms
	phase := t.phase.Load()
	if phase == uploading || e.landed || e.err != nil || e.at.Load() != 0 {
		return
	}
	now := int64(t.owner.since())
	since := now
	if phase == uploaded {
		since = t.since.Load()
	}
	t.owner.watchEnding(e, now, since+int64(t.limit))
}

// land stops the watch. It returns what tells f's end; nil: nobody has asked.
func (f *flight) land() *ending {
	if f.ends.CompareAndSwap(nil, unasked) {
		return nil
	}
	e := f.ends.Load()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.landed = true
	e.unwatch()
	return e
}

// expire ends the context of an attempt whose time is over by now.
func (e *ending) expire(now int64) {
	e.mu.Lock()
	if at := e.at.Load(); at == 0 || at > now { // not watched any more, or anew
		e.mu.Unlock()
		return
	}
	e.expired = true
	e.finish(context.DeadlineExceeded)
}

// callerEnded ends the context as the caller's ended.
func (f *flight) callerEnded() {
	e, err := f.ends.Load(), f.caller.Err()
	e.mu.Lock()
	if e.err != nil {
		e.mu.Unlock()
		return
	}
	e.finish(err)
}

// finish ends the context. The caller has locked e.mu, which it unlocks.
func (e *ending) finish(err error) {
	e.err = err
	e.unwatch()
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
func (e *ending) detach() {
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
func (e *ending) isAttached() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leave != nil
}

// Deadline is the caller's: when the attempt's time is over is not known before
// the end of its upload.
func (f *flight) Deadline() (time.Time, bool) { return f.caller.Deadline() }

// Value is the caller's.
func (f *flight) Value(key any) any { return f.caller.Value(key) }

func (f *flight) Err() error {
	if e := f.ask(); e != nil {
		err := e.err
		e.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return f.caller.Err()
}

func (f *flight) Done() <-chan struct{} {
	e := f.ask()
	if e == nil {
		return f.caller.Done()
	}
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
		if e.err != nil {
			close(e.done)
		} else {
			f.attach(e)
		}
	}
	return e.done
}

// AfterFunc is what package context asks a foreign context for (see
// context.AfterFunc), so that contexts derived from this one need no goroutine.
func (f *flight) AfterFunc(fn func()) (stop func() bool) {
	e := f.ask()
	if e == nil {
		return context.AfterFunc(f.caller, fn)
	}
	defer e.mu.Unlock()
	if e.err != nil {
		go fn()
		return func() bool { return false }
	}
	f.attach(e)
	w := &waiter{fn}
	e.waiting = append(e.waiting, w)
	return func() bool { return e.forget(w) }
}

// attach registers with the caller's context, once, and only if it can end.
func (f *flight) attach(e *ending) {
	if e.leave == nil && !e.detached && f.caller.Done() != nil {
		e.leave = context.AfterFunc(f.caller, f.callerEnded)
	}
}

func (e *ending) forget(w *waiter) bool {
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
