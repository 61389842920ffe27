package limiter

import (
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// single decides on one charge. A key that has an entry of two words takes the
// short way; any other is a stack of one.
func (m *Memory) single(charges []Charge, d *Decision) error {
	charge := &charges[0]
	l := charge.Limit
	if l == nil || l.rule == nil || charge.Cost < 0 || l.rule.Long() {
		return m.other(charges, d)
	}
	c := m.start()
	id := c.hash.of(l, charge.Key)
	steady := c.clock.steady()
	due := c.due(steady)
	s := &c.shards[c.shardOf(id)]
	s.mu.Lock()
	steady = s.now(steady)
	at := steady
	if id.clock() == wallClock {
		at = c.wall(charge, steady)
	}
	var v rule.Verdict
	if s.hot.id == id {
		s.hot.state, v = l.rule.Take(s.hot.state, at, charge.Cost)
	} else if i := s.look(id); i != noSlot {
		state := &s.slots[i].state
		var next rule.State
		next, v = l.rule.Take(*state, at, charge.Cost)
		if next.A != state.A {
			s.note(id, next.A)
		}
		*state = next
		s.heat(i)
	} else if v = c.first(s, id, charge, at, steady); v.Retry != 0 {
		s.mu.Unlock()
		return m.other(charges, d)
	}
	s.credit += payment
	var credit int64
	if due {
		credit, s.credit = s.credit, 0
	}
	s.mu.Unlock()
	d.set(l, v)
	if due {
		c.visit(c.times(steady), credit)
	}
	return nil
}

// look returns where an identity is that is not hot, or noSlot.
func (s *shard) look(id ident) int {
	s.cool()
	return s.find(id)
}

// first decides on the first charge of a key, if that is simple.
func (c *core) first(s *shard, id ident, charge *Charge, at, steady int64) rule.Verdict {
	state, v := charge.Limit.rule.Take(rule.State{}, at, charge.Cost)
	if v.Retry == 0 && charge.Cost > 0 && charge.Limit.old == nil {
		now := c.times(steady)
		if s.replace(slot{id, state}, now) {
			return v
		}
		if c.rooms.own.take(1) {
			s.put(slot{id, state}, now, &c.rooms)
			return v
		}
	}
	return rule.Verdict{Retry: rule.Never}
}

// other decides on one charge the long way.
func (m *Memory) other(charges []Charge, d *Decision) error {
	var each [1]Decision
	return m.stack(each[:], charges, d)
}

// set makes d the decision of one limit.
func (d *Decision) set(l *Limit, v rule.Verdict) {
	d.Allowed = v.Retry == 0
	d.Never = v.Retry == rule.Never
	d.Overflow = false
	d.By = l
	d.Quota = l.rule.Quota()
	d.Remaining = v.Remaining
	d.RetryAfter = time.Duration(v.Retry)
	d.ResetAfter = time.Duration(v.Reset)
	d.Delay = time.Duration(v.Delay)
}
