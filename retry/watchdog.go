package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog ends the attempts that take too long. A timer for each would be the
// dearest part of a call that needs none; so the attempts under way stand in
// slots, and one timer, armed while there are any, looks at them when the
// nearest is due. An attempt that finds no slot has a timer of its own.
//
// Whoever takes an attempt out of its slot decides how it ends: the attempt
// itself when its answer is there, or the timer.
type watchdog struct {
	slots [watchSlots]atomic.Pointer[flight]

	// next is when the timer is due, in nanoseconds of the owner's clock.
	next atomic.Int64

	mu    sync.Mutex
	round uint64 // timers of earlier rounds do nothing
}

const (
	watchSlots = 64
	watchTries = 4

	unarmed = math.MinInt64

	// overdue is how late a timer may be before it is taken for lost: it was
	// armed in a test's bubble, whose clock has stopped.
	overdue = int64(time.Second)
)

// watchFlight ends f a while after now, which counts from s's epoch, unless it
// is unwatched before. place is which slot to ask for first.
func (s *State) watchFlight(f *flight, place uint32, since, limit time.Duration) {
	w, now, at := &s.watch, int64(since), int64(since+limit)
	for i := range uint32(watchTries) {
		slot := &w.slots[(place+i)%watchSlots]
		if slot.Load() != nil {
			continue
		}
		f.at = at
		if slot.CompareAndSwap(nil, f) {
			f.slot = slot
			// Either this sees what the timer's round left in next, or that
			// round sees the slot.
			if next := w.next.Load(); next == unarmed || at < next || now > next+overdue {
				s.arm(now, at)
			}
			return
		}
	}
	e := f.ending()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(limit, f.expire)
}

// unwatch reports whether f was still watched: if not, its time is over.
func (f *flight) unwatch() bool {
	if f.slot != nil {
		return f.slot.CompareAndSwap(f, nil)
	}
	e := f.ends.Load()
	if e == nil {
		return true // never watched
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.landed = e.timer == nil || e.timer.Stop()
	return e.landed
}

// unwatched makes ready for another watch.
func (f *flight) unwatched() {
	f.slot = nil
	if e := f.ends.Load(); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.timer = nil
	}
}

// arm sets the timer to at, if it is not due before. It makes a new one each
// time: one made in a bubble must not be touched from outside.
func (s *State) arm(now, at int64) {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if next := w.next.Load(); next != unarmed && next <= at && now <= next+overdue {
		return
	}
	w.round++
	round := w.round
	w.next.Store(at)
	time.AfterFunc(time.Duration(at-now), func() { s.look(round) })
}

// look ends what is due and arms the timer for what is not.
func (s *State) look(round uint64) {
	w := &s.watch
	w.mu.Lock()
	if round != w.round {
		w.mu.Unlock()
		return
	}
	w.next.Store(unarmed)
	w.mu.Unlock()

	now, nearest := int64(s.now().Sub(s.epoch)), int64(math.MaxInt64)
	for i := range w.slots {
		f := w.slots[i].Load()
		if f == nil {
			continue
		}
		if f.at > now {
			nearest = min(nearest, f.at)
			continue
		}
		if f.state.Or(due); w.slots[i].CompareAndSwap(f, nil) {
			f.expire()
		}
	}
	if nearest < math.MaxInt64 {
		s.arm(now, nearest)
	}
}
