package admission

import "math"

// enqueue puts the ticket where it belongs, if it can be served in time, and
// pushes out who is one too many then; that may be the ticket itself.
func (g *Gate) enqueue(t *Ticket, now int64) Verdict {
	if !t.Patient && g.queue() == 0 {
		g.lost(now)
		return Full
	}
	lane := t.lane()
	key, common := g.key(t, now)
	known := g.service.typical(now)
	end := g.patience(t, now)
	t.due = end
	if t.Deadline != 0 {
		t.due = min(end, t.Deadline-g.margin(known, now))
	}
	if t.due <= now {
		return Late
	}
	if t.due != math.MaxInt64 && g.limit > 0 && g.ahead(lane, key, common)*known.mean/int64(g.limit) > t.due-now {
		g.lost(now)
		if t.due == end {
			return Full
		}
		return Late
	}

	var f *flow
	switch l := &g.lines[lane]; {
	case common:
		g.crowds[lane].of = l.open(crowd, 1)
		g.crowds[lane].of.crowd = &g.crowds[lane]
		f = g.crowds[lane].open(key, 1)
	default:
		f = l.open(key, t.share())
		f.patient = t.Patient
	}
	g.number++
	t.number, t.state, t.at = g.number, waiting, -1
	f.push(t)
	if t.due != math.MaxInt64 {
		g.expiries.add(t)
	}
	g.waiting++
	if t.Patient {
		g.patient++
		return Queued
	}
	if g.waiting-g.patient <= g.queue() {
		return Queued
	}
	if loser := g.victim(); loser != t {
		g.push(loser, now)
		return Queued
	}
	g.dequeue(t)
	t.state = idle
	g.lost(now)
	return Full
}

// key is whose queue the ticket joins, and whether that is among those who have
// a share in common.
func (g *Gate) key(t *Ticket, now int64) (key uint64, common bool) {
	switch {
	case t.Tenant == "" && t.Patient:
		return patient, false
	case t.Tenant == "":
		return nobody, false
	case t.Patient:
		return hash(^g.seed, t.Tenant) | tenants, false
	}
	if t.Known { // not the one who calls himself the same
		return hash(g.seed^proven, t.Tenant) | tenants, false
	}
	key = hash(g.seed, t.Tenant) | tenants
	return key, !g.census.own(key, now)
}

// patience is when the ticket has waited for MaxWait.
func (g *Gate) patience(t *Ticket, now int64) int64 {
	if t.Patient || g.config.MaxWait < 0 || g.config.MaxWait > math.MaxInt64-max(now, 0) {
		return math.MaxInt64
	}
	return now + g.config.MaxWait
}

// ahead is how many places must come free until the ticket's turn, if nobody
// better comes.
func (g *Gate) ahead(lane int, key uint64, common bool) int64 {
	l, n := &g.lines[lane], 0
	for i := range lane {
		n += g.lines[i].n
	}
	if common {
		c := &g.crowds[lane]
		n += l.ahead(crowd, c.ahead(key, c.behind(key)))
	} else {
		n += l.ahead(key, l.behind(key))
	}
	return int64(n) + 1
}

// victim is who is dropped when the queue is full: of the lowest class the
// tenant with most waiting for its weight, of that the worst by the order.
func (g *Gate) victim() *Ticket {
	for i := len(g.lines) - 1; i >= 0; i-- {
		if l := &g.lines[i]; len(l.longest) > 0 {
			return l.longest[0].last(l.order)
		}
	}
	return nil
}

// push pushes a waiting ticket out; Next tells its owner.
func (g *Gate) push(t *Ticket, now int64) {
	g.dequeue(t)
	t.state = pushed
	if g.out == nil {
		g.out = t
	} else {
		g.outLast.newer = t
	}
	g.outLast = t
	g.lost(now)
}

// expire ends a ticket that was taken out of the queue because of the time.
func (g *Gate) expire(t *Ticket, now int64) Verdict {
	t.state = idle
	g.lost(now)
	return Expired
}

// dequeue takes a waiting ticket out of its flow.
func (g *Gate) dequeue(t *Ticket) {
	t.flow.remove(t)
	g.gone(t)
}

// gone keeps the rest of the books of a ticket that has left its flow.
func (g *Gate) gone(t *Ticket) {
	g.expiries.remove(t)
	g.waiting--
	if t.Patient {
		g.patient--
	}
}
