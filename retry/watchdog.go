package retry

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog ends the attempts that take too long. A timer for each would be the
// dearest part of a call that needs none; so the attempts under way that somebody
// may have to be told of stand in slots, and one timer, armed while there are
// any, looks at them when the nearest is due. An attempt that finds no slot has a
// timer of its own.
//
// How an attempt ends is decided under its lock: by itself when its answer is
// there, or by the timer. Only who holds that lock takes it out of its slot.
type watchdog struct {
	slots [watchSlots]atomic.Pointer[ending]

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

// watchEnding ends e at an instant of s's time, unless it is unwatched before.
// The caller holds e.mu.
func (s *State) watchEnding(e *ending, now, at int64) {
	w := &s.watch
	e.at.Store(at)
	place := rand.Uint32()
	for i := range uint32(watchTries) {
		slot := &w.slots[(place+i)%watchSlots]
		if slot.Load() != nil || !slot.CompareAndSwap(nil, e) {
			continue
		}
		e.slot = slot
		// Either this sees what the timer's round left in next, or that round
		// sees the slot.
		if next := w.next.Load(); next == unarmed || at < next || now > next+overdue {
			s.arm(now, at)
		}
		return
	}
	e.timer = time.AfterFunc(time.Duration(at-now), func() { e.expire(at) })
}

// unwatch leaves nothing behind. The caller holds e.mu.
func (e *ending) unwatch() {
	e.at.Store(0)
	if e.slot != nil {
		e.slot.Store(nil)
		e.slot = nil
	}
	if e.timer != nil {
		e.timer.Stop()
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
		e := w.slots[i].Load()
		if e == nil {
			continue
		}
		switch at := e.at.Load(); {
		case at > now:
			nearest = min(nearest, at)
		case at != 0:
			e.expire(now)
		}
	}
	if nearest < math.MaxInt64 {
		s.arm(now, nearest)
	}
}
