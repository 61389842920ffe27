package admission

import (
	"math"
	"time"
)

// Gate admits. It is not safe for concurrent use.
type Gate struct {
	limit    int
	inFlight int
	waiting  int // with the patient
	patient  int

	config   Config
	seed     uint64
	number   uint64 // of the last ticket queued
	lines    [4]line
	crowds   [4]line // within a line, those who share a share
	expiries expiries
	out      *Ticket // pushed out and not told yet
	outLast  *Ticket
	census   census
	service  service
	pressure Pressure
	pressed  int64 // until when the queue counts as one that loses requests
}

// Keys of flows that are no tenant's, and the bit of those that are.
const (
	nobody = iota
	crowd
	patient
	tenants = 1 << 63
)

// proven keeps the names that were proven apart from those that were not.
const proven = 0xa0761d6478bd642f

// New makes a Gate. The seed decides how tenants are hashed; a server draws it
// at random, so that nobody can choose names that collide.
func New(c Config, seed uint64) *Gate {
	g := &Gate{config: c, seed: seed}
	if c.MaxWait == 0 {
		g.config.MaxWait = int64(DefaultMaxWait)
	}
	g.census.room = c.MaxTenants
	if c.MaxTenants == 0 {
		g.census.room = DefaultMaxTenants
	}
	for i := range g.lines {
		g.lines[i].order, g.crowds[i].order = c.Order, c.Order
	}
	g.limit = max(c.Limit, 0)
	return g
}

// Arrive admits the ticket, queues it or refuses it. It may push others out;
// Next tells whom. A ticket that has not ended yet stays as it is.
func (g *Gate) Arrive(t *Ticket, now int64) Verdict {
	if t.state != idle {
		if t.state == inside || t.state == nested {
			return Admitted
		}
		return Queued
	}
	t.arrived, t.admitted = now, now
	if t.Deadline != 0 && !g.enough(t, now) {
		return Late // whatever the others do: it says nothing about them
	}
	if t.Nested {
		t.state = nested
		return Admitted
	}
	if g.inFlight < g.limit && g.waiting == 0 {
		g.inFlight++
		t.state = inside
		return Admitted
	}
	return g.enqueue(t, now)
}

// Next is the next ticket whose owner is to be told, and what: Admitted, Pushed
// or Expired. Call it until it returns nil, after every other verb and when Due
// has come.
func (g *Gate) Next(now int64) (*Ticket, Verdict) {
	if g.waiting == 0 && g.out == nil {
		return nil, Queued
	}
	return g.next(now)
}

func (g *Gate) next(now int64) (*Ticket, Verdict) {
	for g.waiting-g.patient > g.queue() { // the limit fell, and with it the bound
		g.push(g.victim(), now)
	}
	if t := g.out; t != nil {
		g.out, t.newer = t.newer, nil
		t.state = idle
		return t, Pushed
	}
	if len(g.expiries) > 0 && g.expiries[0].due <= now {
		t := g.expiries[0]
		g.dequeue(t)
		return t, g.expire(t, now)
	}
	if g.inFlight >= g.limit || g.waiting == 0 {
		return nil, Queued
	}
	for i := range g.lines {
		if g.lines[i].n == 0 {
			continue
		}
		t := g.lines[i].pop()
		g.gone(t)
		if t.Deadline != 0 && !g.enough(t, now) {
			return t, g.expire(t, now)
		}
		g.inFlight++
		t.state, t.admitted = inside, now
		return t, Admitted
	}
	return nil, Queued
}

// Leave gives the slot of an admitted ticket back. With measure the time inside,
// until Ready, counts as what a request takes; a connection taken over, or a
// handler that failed, says nothing about that. It reports whether the ticket was
// inside.
func (g *Gate) Leave(t *Ticket, now int64, measure bool) bool {
	if t.state == inside && measure && !t.Patient {
		over := now
		if t.Ready != 0 {
			over = t.Ready
		}
		g.service.add(over-t.admitted, now)
	}
	return g.leave(t)
}

// GaveUp is Leave for one whose client did not wait for the end: all that is
// known of how long it takes is that it is longer.
func (g *Gate) GaveUp(t *Ticket, now int64) bool {
	if t.state == inside && !t.Patient {
		g.service.addAtLeast(now-t.admitted, now)
	}
	return g.leave(t)
}

func (g *Gate) leave(t *Ticket) bool {
	switch t.state {
	case inside:
		g.inFlight--
	case nested:
	default:
		return false
	}
	t.state = idle
	return true
}

// Cancel takes a waiting ticket out of the queue and reports whether it waited.
// If it did not, it was admitted, and Leave is due, or it has ended.
func (g *Gate) Cancel(t *Ticket, now int64) bool {
	if t.state != waiting {
		return false
	}
	g.dequeue(t)
	t.state = idle
	return true
}

// Due is when the next waiting ticket expires; math.MaxInt64 if none does.
func (g *Gate) Due() int64 {
	if len(g.expiries) == 0 {
		return math.MaxInt64
	}
	return g.expiries[0].due
}

// SetLimit changes how many may be inside. Zero and below means nobody, also
// when nobody is inside. Those inside stay when it falls; nobody enters until
// enough have left. With the default Queue a lower limit pushes out who waits
// beyond the new bound.
func (g *Gate) SetLimit(n int) { g.limit = max(n, 0) }

// Limit is how many may be inside.
func (g *Gate) Limit() int { return g.limit }

// InFlight is how many are inside, without the nested.
func (g *Gate) InFlight() int { return g.inFlight }

// Waiting is how many are queued, with the patient.
func (g *Gate) Waiting() int { return g.waiting }

// RetryAfter is what to tell who is refused now, in whole seconds from 1 to 32:
// it doubles while many are refused or dropped and falls when few are. Random is
// in [0, 1); it spreads those who come back. Who comes too late does not count.
func (g *Gate) RetryAfter(now int64, random float64) time.Duration {
	return g.pressure.RetryAfter(now, random)
}

// Refused counts one that the owner refused without asking, towards RetryAfter.
func (g *Gate) Refused(now int64) { g.pressure.Refuse(now) }

// lost notes that the queue had no room for one, or too long a wait.
func (g *Gate) lost(now int64) {
	g.pressure.Refuse(now)
	g.pressed = now + pressedFor
}

// pressedFor is how long a loss of the queue has it look at the tail.
const pressedFor = int64(time.Second)

// queue is how many may wait.
func (g *Gate) queue() int {
	switch {
	case g.config.Queue < 0:
		return 0
	case g.config.Queue > 0:
		return g.config.Queue
	}
	return max(2*min(g.limit, math.MaxInt32), 16)
}

// enough reports whether what is left until the ticket's deadline is what it
// needs.
func (g *Gate) enough(t *Ticket, now int64) bool {
	if t.Deadline <= now {
		return false
	}
	return t.Nested || t.Deadline-now >= g.margin(g.service.typical(now), now)
}

// margin is how much must be left when work on a request begins. While the queue
// loses some, a slot is worth more to one that will be in time nine times of ten.
// Else it costs nobody anything to try, and that others take longer is no reason
// not to: only what even the quickest does not make is in vain.
func (g *Gate) margin(known estimate, now int64) int64 {
	if now < g.pressed {
		return known.tail
	}
	return known.least
}
