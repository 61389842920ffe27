package admission

import (
	"math"
	"slices"
	"time"
)

// Gate admits. It is not safe for concurrent use.
type Gate struct {
	config   Config
	limit    int
	inFlight int
	queue    []*Ticket
}

// New makes a Gate. The seed decides how tenants are hashed; a server draws it
// at random, so that nobody can choose names that collide.
func New(c Config, seed uint64) *Gate {
	g := &Gate{config: c}
	g.SetLimit(c.Limit)
	return g
}

// Arrive admits the ticket, queues it or refuses it. It may push others out;
// Next tells whom. A ticket that has not ended must not arrive again.
func (g *Gate) Arrive(t *Ticket, now int64) Verdict {
	t.arrived, t.admitted = now, now
	if t.Deadline != 0 && t.Deadline <= now {
		return Late
	}
	if t.Nested {
		t.state = nested
		return Admitted
	}
	if g.inFlight < g.limit && len(g.queue) == 0 {
		g.inFlight++
		t.state = inside
		return Admitted
	}
	if len(g.queue) >= max(2*g.limit, 16) {
		return Full
	}
	t.state = waiting
	g.queue = append(g.queue, t)
	return Queued
}

// Next is the next ticket whose owner is to be told, and what: Admitted, Pushed
// or Expired. Call it until it returns nil, after every other verb and when Due
// has come.
func (g *Gate) Next(now int64) (*Ticket, Verdict) {
	if len(g.queue) == 0 {
		return nil, Queued
	}
	t := g.queue[0]
	if now >= t.arrived+int64(DefaultMaxWait) {
		g.queue = g.queue[1:]
		t.state = idle
		return t, Expired
	}
	if g.inFlight < g.limit {
		g.queue = g.queue[1:]
		g.inFlight++
		t.state, t.admitted = inside, now
		return t, Admitted
	}
	return nil, Queued
}

// Leave gives the slot of an admitted ticket back. With measure the time inside
// counts as what a request takes; a connection taken over, or a request broken
// off, says nothing about that. It reports whether the ticket was inside.
func (g *Gate) Leave(t *Ticket, now int64, measure bool) bool {
	was := t.state
	if was != inside && was != nested {
		return false
	}
	t.state = idle
	if was == inside {
		g.inFlight--
	}
	return true
}

// Cancel takes a waiting ticket out of the queue and reports whether it waited.
// If it did not, it was admitted, and Leave is due, or has ended.
func (g *Gate) Cancel(t *Ticket, now int64) bool {
	if t.state != waiting {
		return false
	}
	t.state = idle
	g.queue = slices.DeleteFunc(g.queue, func(q *Ticket) bool { return q == t })
	return true
}

// Due is when the next waiting ticket expires, as the time that Arrive was
// given; math.MaxInt64 if none does.
func (g *Gate) Due() int64 {
	if len(g.queue) == 0 {
		return math.MaxInt64
	}
	return g.queue[0].arrived + int64(DefaultMaxWait)
}

// SetLimit changes how many may be inside. Zero and below means nobody. Those
// inside stay when it falls; nobody enters until enough have left.
func (g *Gate) SetLimit(n int) { g.limit = max(n, 0) }

// Limit is how many may be inside.
func (g *Gate) Limit() int { return g.limit }

// InFlight is how many are inside.
func (g *Gate) InFlight() int { return g.inFlight }

// Waiting is how many are queued.
func (g *Gate) Waiting() int { return len(g.queue) }

// RetryAfter is what to tell who is refused now, in whole seconds from 1 to 32:
// it doubles while many are refused and falls when few are. Random is in [0, 1);
// it spreads those who come back.
func (g *Gate) RetryAfter(now int64, random float64) time.Duration { return time.Second }
