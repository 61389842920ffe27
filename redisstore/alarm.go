package redisstore

import (
	"sync/atomic"
	"time"
)

// alarms tells calls when their time is up. Calls that start within a few
// hundred microseconds share a timer: setting one for each costs more than the
// rest of the call.
type alarms struct {
	after   time.Duration // not negative: never
	current atomic.Pointer[alarm]
}

type alarm struct {
	set time.Time
	up  chan struct{} // closed when after has passed since set
}

// next returns a channel that is closed when the time of a call that starts now
// is up: after the time set, or up to a sixty-fourth of it sooner. It is nil if
// that is never.
func (a *alarms) next() <-chan struct{} {
	if a.after < 0 {
		return nil
	}
	now := time.Now()
	current := a.current.Load()
	if current != nil && now.Sub(current.set) < a.after/64 {
		return current.up
	}
	fresh := &alarm{set: now, up: make(chan struct{})}
	if !a.current.CompareAndSwap(current, fresh) {
		// Another call has just set one.
		return a.current.Load().up
	}
	time.AfterFunc(a.after, func() { close(fresh.up) })
	return fresh.up
}
