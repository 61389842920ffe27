package main

import (
	"context"
	"sync"
)

// queue holds the rows that are still to be sent, and who of the senders is
// next. A sender number may send once a second while the account may ten times,
// so it matters whose row a worker takes up: of those with the fewest calls
// under way, the sender that has most left to do. A slow one then keeps no
// worker from the others, and the longest list does not end last.
type queue struct {
	mu      sync.Mutex
	senders []*line // in the order of the list
	of      map[string]*line
	open    int           // rows that are waiting or taken
	changed chan struct{} // closed when a row came back or the last one is done
}

type line struct {
	waiting []row
	taken   int
}

func newQueue(rows []row) *queue {
	q := &queue{of: map[string]*line{}, changed: make(chan struct{})}
	for _, r := range rows {
		q.line(r).waiting = append(q.line(r).waiting, r)
	}
	q.open = len(rows)
	return q
}

// take returns the next row, waiting if all that are left are taken. It returns
// false when none is left or ctx ended.
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
		switch {
		case len(l.waiting) == 0:
		case best == nil, l.taken < best.taken, l.taken == best.taken && len(l.waiting) > len(best.waiting):
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
	if q.open--; q.open == 0 {
		q.wake()
	}
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
