package pacer

import "time"

// waiting is who waits for a line: two queues in order of arrival.
//
//	who is first     Interactive, then Background; after fairTurn Interactive
//	                 calls in a row the first Background one
//	who is passed    one that waits for another line too: it is passed over here
//	                 until the other is ready, and takes from none before
type waiting struct {
	queue  [Background + 1]queue
	multi  int     // of which wait for other lines too
	streak int     // Interactive calls that left in a row while Background waited
	turn   *waiter // with Shared: the one that asks the store
	timer  *time.Timer
	due    int64 // of timer
	look
}

type queue struct {
	first, last *place
	calls       int
	units       int64
}

// place is where a waiter stands in one line.
type place struct {
	waiter     *waiter
	line       *line
	key        string // as the caller named it
	n          int64
	next, prev *place
	seen       uint64 // the round in which a look passed this place: it is not blocked
}

func (w *waiting) calls() int { return w.queue[Interactive].calls + w.queue[Background].calls }

func (w *waiting) push(p *place) {
	q := &w.queue[p.waiter.class]
	p.prev, p.next = q.last, nil
	if q.last == nil {
		q.first = p
	} else {
		q.last.next = p
	}
	q.last = p
	q.calls++
	q.units = later(q.units, p.n)
	if len(p.waiter.places) > 1 {
		w.multi++
	}
}

func (w *waiting) remove(p *place) {
	q := &w.queue[p.waiter.class]
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
	}
}

// turns keeps the count that gives Background its turn.
func (w *waiting) turns(left Priority) {
	if left == Background || w.queue[Background].calls == 0 {
		w.streak = 0
		return
	}
	w.streak++
}

func (w *waiting) backgroundsTurn() bool {
	return w.streak >= fairTurn && w.queue[Background].first != nil
}

// first is the first place in order.
func (w *waiting) first() *place {
	if p := w.queue[Interactive].first; p != nil && !w.backgroundsTurn() {
		return p
	}
	return w.queue[Background].first
}

// after is the place that follows p in order.
func (w *waiting) after(p *place) *place {
	head := w.queue[Background].first
	switch turn := w.backgroundsTurn(); {
	case turn && p == head:
		if q := w.queue[Interactive].first; q != nil {
			return q
		}
		return p.next
	case p.next != nil || p.waiter.class == Background:
		return p.next
	case turn:
		return head.next
	}
	return head
}

// ahead is how many units would leave before a newcomer of the class, if
// everybody in the line leaves in order.
func (w *waiting) ahead(class Priority) int64 {
	fg, bg := &w.queue[Interactive], &w.queue[Background]
	if class == Interactive {
		turns := min((w.streak+fg.calls)/fairTurn, bg.calls)
		return later(fg.units, portion(bg, turns))
	}
	turns := min(fg.calls, max(0, fairTurn*(bg.calls+1)-w.streak))
	return later(bg.units, portion(fg, turns))
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
func (w *waiting) aheadBy(class Priority, by time.Time) (units int64) {
	for c := Interactive; c <= class; c++ {
		for p := w.queue[c].first; p != nil; p = p.next {
			if !p.waiter.eta.After(by) {
				units = later(units, p.n)
			}
		}
	}
	return units
}
