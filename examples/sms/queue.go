package main

import (
	"context"
	"sync"
)

// queue holds the rows that are still to be sent, and says whose is next. A
// sender number may send once a second while the account may ten times, so it
// matters whose row a worker takes up: of the sender that has the most to do for
// each of its calls under way. All then end at about the same time. None may
// have more than a share of the workers, so that a slow one stops no other.
type queue struct {
	share int // of the workers, for one sender

	mu      sync.Mutex
	senders []*line // in the order of the list
	of      map[string]*line
	open    int           // rows that are waiting or taken
	changed chan struct{} // closed when a row came back or is done
}

type line struct {
	waiting []row
	taken   int
}

func newQueue(rows []row, workers int) *queue {
	q := &queue{share: max(1, workers/4), of: map[string]*line{}, changed: make(chan struct{})}
	for _, r := range rows {
		q.line(r).waiting = append(q.line(r).waiting, r)
	}
	q.open = len(rows)
	return q
}

// take returns the next row, and waits if none may be taken now. It returns false
// when none is left or ctx ended.
func (q *queue) take(ctx context.Context) (row, bool) {
	for ctx.Err() == nil {
		r, found, changed := q.pick()
		if found || changed == nil {
			return r, found
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return row{}, false
}

// pick returns a row, or what to wait for, or neither at the end.
func (q *queue) pick() (r row, found bool, changed chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var best *line
	for _, l := range q.senders {
		if len(l.waiting) == 0 || l.taken == q.share {
			continue
		}
		if best == nil || len(l.waiting)*(best.taken+1) > len(best.waiting)*(l.taken+1) {
			best = l
		}
	}
	if best == nil {
		if q.open == 0 {
			return row{}, false, nil
		}
		return row{}, false, q.changed
	}
	r = best.waiting[0]
	best.waiting = best.waiting[1:]
	best.taken++
	return r, true, nil
}

// done takes a row off the list.
func (q *queue) done(r row) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.line(r).taken--
	q.open--
	q.wake() // its sender has a place again, or all is done
}

// back puts a row whose call failed at the end of its sender's line.
func (q *queue) back(r row) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.line(r)
	l.taken--
	l.waiting = append(l.waiting, r)
	q.wake()
}

func (q *queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) line(r row) *line {
	l := q.of[r.From]
	if l == nil {
		l = &line{}
		q.of[r.From] = l
		q.senders = append(q.senders, l)
	}
	return l
}
