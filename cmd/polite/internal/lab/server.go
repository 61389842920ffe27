package lab

import (
	"time"

	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/sim"
)

// A request is one attempt as the server sees it. Refusing costs the server
// nothing, unless an experiment says so.
type request struct {
	ticket  admission.Ticket // ours
	tenant  string
	known   bool // the tenant is a customer, not whatever a request claims
	arrived int64
	expires int64 // when the caller gives up, if it told; 0: it did not
	started int64 // when work began

	begin  func() // it is let in
	refuse func() // it is sent away, at once or after a time in line
	work   func() // the work is over
	done   func()
}

// A door decides what becomes of a request before work begins. It calls begin
// or refuse once, at once or later.
type door interface {
	arrive(r *request)
	leave(r *request) // the work of one that was let in is done
}

// pool is a server's workers, and the line in front of them that nobody
// planned. A worker ends what it has begun, whether or not somebody waits.
type pool struct {
	sim     *sim.Sim
	workers int
	service func() int64 // draws how long a job takes
	stall   [2]int64     // from, to: no job makes progress

	busy    int
	waiting queue[func()]
}

func (p *pool) do(done func()) {
	if p.busy >= p.workers {
		p.waiting.push(done)
		return
	}
	p.busy++
	p.sim.At(p.end(p.sim.Now(), p.service()), func() {
		p.busy--
		p.next()
		done()
	})
}

func (p *pool) next() {
	for p.busy < p.workers && p.waiting.len() > 0 {
		p.do(p.waiting.oldest())
	}
}

// end is when a job is done that begins now and takes so long.
func (p *pool) end(now, takes int64) int64 {
	from, to := p.stall[0], p.stall[1]
	switch {
	case now >= from && now < to:
		return to + takes
	case now < from && now+takes > from:
		return now + takes + to - from
	}
	return now + takes
}

// resize changes the number of workers. Those that go end their job first.
func (p *pool) resize(workers int) {
	p.workers = workers
	p.next()
}

// exponential service times vary as much as most real ones do.
func exponential(s *sim.Sim, mean time.Duration) func() int64 {
	return func() int64 { return s.Exp(mean) }
}

// guarded is a server behind a door.
type guarded struct {
	door door
	pool *pool
}

// serve hands a request in. One of done and refused is called, once. Then the
// request may be handed in again.
func (g *guarded) serve(r *request, done, refused func()) {
	r.arrived = g.pool.sim.Now()
	r.done, r.refuse = done, refused
	if r.begin == nil {
		r.begin = func() {
			r.started = g.pool.sim.Now()
			g.pool.do(r.work)
		}
		r.work = func() {
			g.door.leave(r)
			r.done()
		}
	}
	g.door.arrive(r)
}

// queue is a list that is taken from at both ends.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(v T) { q.items = append(q.items, v) }

func (q *queue[T]) oldest() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	if q.head++; q.head > len(q.items)/2 && q.head > 64 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}

func (q *queue[T]) newest() T {
	var none T
	last := len(q.items) - 1
	v := q.items[last]
	q.items[last] = none
	q.items = q.items[:last]
	return v
}
