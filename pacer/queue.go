package pacer

import (
	"math/rand/v2"
	"time"
)

// waiting is who waits for a line: three queues, each in order of arrival.
//
//	who is first     the promoted, then Interactive, then Background; after
//	                 fairTurn Interactive calls in a row the first Background
//	                 one is promoted, in all its lines
//	who is passed    one that waits for another line too: it is passed over here
//	                 until the other is ready, and takes from none before
//
// So of two calls the same one is first in every line they share, and none can
// wait for each other.
type waiting struct {
	queue  [ranks]queue
	multi  int     // of which wait for other lines too
	streak int     // Interactive calls that left in a row while Background waited
	turn   *waiter // with Shared: the one that asks the store
	timer  *time.Timer
	due    int64 // of timer
	look
}

type rank uint8

const (
	promoted rank = iota
	interactive
	background
	ranks
)

type queue struct {
	first, last *place
	calls       int
	units       int64
	expected    // those of them who wait for other lines too
}

// place is where a waiter stands in one line.
type place struct {
	waiter     *waiter
	line       *line
	key        string // as the caller named it
	n          int64
	next, prev *place
	node       node
	seen       uint64 // the round in which a look passed this place: it is not blocked
}

func (w *waiting) calls() (n int) {
	for i := range w.queue {
		n += w.queue[i].calls
	}
	return n
}

// push puts p behind all that came before it.
func (w *waiting) push(p *place) {
	q := &w.queue[p.waiter.rank]
	p.prev, p.next = q.last, nil
	for p.prev != nil && p.prev.waiter.arrival > p.waiter.arrival {
		p.prev, p.next = p.prev.prev, p.prev
	}
	if p.prev == nil {
		q.first = p
	} else {
		p.prev.next = p
	}
	if p.next == nil {
		q.last = p
	} else {
		p.next.prev = p
	}
	q.calls++
	q.units = later(q.units, p.n)
	if len(p.waiter.places) > 1 {
		w.multi++
		q.add(p, rand.Uint64())
	}
}

func (w *waiting) remove(p *place) {
	q := &w.queue[p.waiter.rank]
	if p.prev == nil {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.next, p.prev = nil, nil
	q.calls--
	q.units -= p.n
	if len(p.waiter.places) > 1 {
		w.multi--
		q.expected.remove(p)
	}
}

// left notes that a call of the class left, and returns the one whose turn has
// come by that, if any.
func (w *waiting) left(class Priority) *waiter {
	first := w.queue[background].first
	if class == Background || first == nil {
		w.streak = 0
		return nil
	}
	if w.streak++; w.streak < fairTurn {
		return nil
	}
	w.streak = 0
	return first.waiter
}

// first is the first place in order.
func (w *waiting) first() *place { return w.from(promoted) }

func (w *waiting) from(r rank) *place {
	for ; r < ranks; r++ {
		if p := w.queue[r].first; p != nil {
			return p
		}
	}
	return nil
}

// after is the place that follows p in order.
func (w *waiting) after(p *place) *place {
	if p.next != nil {
		return p.next
	}
	return w.from(p.waiter.rank + 1)
}

// ahead is how many units would leave before a newcomer of the class, if
// everybody in the line leaves in order.
func (w *waiting) ahead(class Priority) int64 {
	units := w.queue[promoted].units
	fg, bg := &w.queue[interactive], &w.queue[background]
	if class == Interactive {
		turns := min((w.streak+fg.calls)/fairTurn, bg.calls)
		return later(units, later(fg.units, portion(bg, turns)))
	}
	turns := min(fg.calls, max(0, fairTurn*(bg.calls+1)-w.streak))
	return later(units, later(bg.units, portion(fg, turns)))
}

// portion is the units of so many calls of q, on average.
func portion(q *queue, calls int) int64 {
	if calls == 0 {
		return 0
	}
	return int64(float64(q.units) / float64(q.calls) * float64(calls))
}

// aheadBy is how many units are expected to leave before a newcomer of the
// class and until an instant: those that wait for other lines are passed over.
func (w *waiting) aheadBy(class Priority, at time.Time) (units int64) {
	last := interactive
	if class == Background {
		last = background
	}
	for i := range last + 1 {
		q := &w.queue[i]
		units = later(units, later(q.units-q.all(), q.by(at)))
	}
	return units
}
