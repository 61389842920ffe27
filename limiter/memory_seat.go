package limiter

import (
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// seat is where a charge of a stack is made: the entry that its key has, or is
// to get, or shares with others.
type seat struct {
	limit *Limit
	shard *shard
	id    ident
	at    int64 // the time as the limit's rule counts it
	cost  int64 // of all charges to this entry

	state  rule.State // what a slot is to hold
	slot   int32      // where the entry is, inHistory or noSlot
	number int32      // of the shard
	first  int32      // the seat that stands for this one, or itself
	next   int32      // in the list, or none
	room   bool       // a new entry has been given room
	packed bool       // the key has found none, not even in an overflow entry
}

// take seats a charge.
func (s *seat) take(c *core, charge *Charge) {
	id := c.hash.of(charge.Limit, charge.Key)
	n := c.shardOf(id)
	s.limit = charge.Limit
	s.shard = &c.shards[n]
	s.id = id
	s.cost = charge.Cost
	s.number = int32(n)
	s.room, s.packed = false, false
}

// time says when it is made. The shard is locked.
func (s *seat) time(c *core, charge *Charge, steady int64) {
	s.shard.seen = steady
	s.at = steady
	if s.id.clock() == wallClock {
		s.at = c.wall(charge, steady)
	}
}

// enter locks the shard of a charge that is no part of a stack, and seats it at
// an instant.
func (s *seat) enter(c *core, charge *Charge) (steady int64) {
	s.take(c, charge)
	steady = c.clock.steady()
	s.shard.lock()
	steady = s.shard.now(steady)
	s.time(c, charge, steady)
	return steady
}

// share seats the charge at the overflow entry of a key without room. All who
// share it go by one time, whatever their keys shift it by, or the windows of
// one would end those of another.
func (s *seat) share(c *core, now times) {
	s.id = c.hash.shared(s.limit, s.id.hi, c.bits)
	s.at = now[s.id.clock()]
}

// find looks for the entry. It reports false if there is none.
func (s *seat) find() bool {
	if !s.limit.rule.Long() {
		s.slot = int32(s.shard.find(s.id))
	} else if s.slot = inHistory; s.shard.longs[s.id] == nil {
		s.slot = noSlot
	}
	return s.slot != noSlot
}

// ask puts the decision on cost units into d, and into the seat what a slot
// would hold.
func (s *seat) ask(d *Decision, cost int64) bool {
	r := s.limit.rule
	var v rule.Verdict
	switch {
	case s.packed:
		v = rule.Verdict{Retry: whenPacked, Reset: whenPacked}
	case r.Long():
		var h *rule.History
		if e := s.shard.longs[s.id]; e != nil {
			h = &e.history
		}
		v = r.Ask(h, s.at, cost)
	default:
		var state rule.State
		if s.slot >= 0 {
			state = s.shard.slots[s.slot].state
		}
		s.state, v = r.Take(state, s.at, cost)
	}
	d.set(s.limit, v)
	d.Overflow = s.packed || s.id.overflow()
	d.Degraded, d.Each = nil, nil
	return d.Allowed
}

// whenPacked is when a key may come again that has not even found an overflow
// entry.
const whenPacked = int64(time.Second)

// sit finds the entry of every seat, or room for one. To make room may move the
// others' entries, or remove them if they are spent.
func (st *stack) sit(charges []Charge, now times) {
	for moved := true; moved; {
		moved = false
		for i := st.head; i != none; i = st.seats[i].next {
			s := &st.seats[i]
			if s.room || s.packed || s.find() {
				continue
			}
			moved = true
			if s.settle(st.core, charges[i].Key, now) {
				continue
			}
			st.full = true
			s.share(st.core, now)
			if !st.peek {
				s.shard.shared++
			}
			st.unlist(i)
			if st.list(i) {
				continue // another key of the stack shares it too
			}
			if !s.find() {
				s.room = st.core.take(s)
				s.packed = !s.room
			}
		}
	}
}

// settle finds an entry, or room for one, of the key's own.
func (s *seat) settle(c *core, key string, now times) bool {
	if s.carry(c, key, now) {
		return true
	}
	if s.room = c.take(s); !s.room {
		c.sweep(s.shard, now)
		s.room = c.take(s)
	}
	return s.room
}

// take takes room for an entry, and for its history if it has one. A limit has
// one overflow entry in each shard at most, which bounds their histories.
func (c *core) take(s *seat) bool {
	if !c.rooms.entries(s.id).take(1) {
		return false
	}
	if !s.limit.rule.Long() {
		return true
	}
	room, n := c.rooms.histories(s.id), roomFor(s.limit.rule)
	if s.id.overflow() {
		room.taken.Add(n) // so that there is one for every key
		return true
	}
	if !room.take(n) {
		c.rooms.entries(s.id).give(1)
		return false
	}
	return true
}

// give gives it back.
func (c *core) give(s *seat) {
	c.rooms.entries(s.id).give(1)
	if s.limit.rule.Long() {
		c.rooms.histories(s.id).give(roomFor(s.limit.rule))
	}
}
