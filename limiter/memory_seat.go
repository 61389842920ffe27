package limiter

import "github.com/politehttp/polite/internal/rule"

// seat is where a charge of a stack is made: the entry that its key has, or is
// to get, or shares with others.
type seat struct {
	limit *Limit
	id    ident
	shard int
	at    int64 // the time as the limit's rule counts it
	cost  int64 // of all charges to this entry
	first int   // the seat that stands for all charges to this entry

	slot  int        // where the entry is, or noSlot
	state rule.State // what it is to hold
	long  *long      // where the entry is if the rule keeps a history, or nil

	room bool // a new entry has been given room
	full bool // the key has found none, and shares an overflow entry
	none bool // which does not exist and has found none either
}

func (c *core) seat(charge *Charge, now times) seat {
	id := c.hash.of(charge.Limit, charge.Key)
	return seat{
		limit: charge.Limit,
		id:    id,
		shard: c.shardOf(id),
		at:    now[id.clock()] + charge.Limit.rule.Shift(charge.Key),
		cost:  charge.Cost,
		slot:  noSlot,
	}
}

// find looks for the entry. It reports false if there is none.
func (s *seat) find(sh *shard) bool {
	if s.limit.rule.Long() {
		s.long = sh.longs[s.id]
		return s.long != nil
	}
	s.slot = sh.find(s.id)
	return s.slot != noSlot
}

// sit finds the entry of every seat, or room for one. To make room for one may
// move the others' entries, or remove them if they are spent.
func (c *core) sit(seats []seat, charges []Charge, now times) {
	for moved := true; moved; {
		moved = false
		for i := range seats {
			s := &seats[i]
			if s.first != i || s.room || s.none || s.find(&c.shards[s.shard]) {
				continue
			}
			c.settle(s, charges[i].Key, now)
			merge(seats[:i+1]) // keys may share an overflow entry
			moved = true
		}
	}
}

// settle finds room for a key that has no entry.
func (c *core) settle(s *seat, key string, now times) {
	sh := &c.shards[s.shard]
	if c.carry(s, sh, key, now) {
		return
	}
	if s.room = c.own(s, sh, now); s.room {
		return
	}
	s.full = true
	s.id = c.hash.shared(s.limit, s.id.hi, c.bits)
	sh.shared++
	if !s.find(sh) {
		s.room = c.take(s)
		s.none = !s.room
	}
}

// take takes room for an entry, and for its history if it has one.
func (c *core) take(s *seat) bool {
	if !c.rooms.entries(s.id).take(1) {
		return false
	}
	if s.limit.rule.Long() && !c.rooms.histories(s.id).take(roomFor(s.limit.rule)) {
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

// own finds room for an entry of the key's own. At the bound that is where a
// spent entry was: on the way to its place, or if a sweep is paid for anywhere
// in its shard.
func (c *core) own(s *seat, sh *shard, now times) bool {
	if c.take(s) {
		return true
	}
	if len(sh.slots) > 0 {
		i := sh.spot(s.id, now)
		if e := &sh.slots[i]; !e.id.empty() {
			c.rooms.entries(e.id).give(1)
			if e.id.overflow() {
				sh.spare--
			}
			sh.remove(i)
			if c.take(s) {
				return true
			}
		}
	}
	c.sweep(sh, now)
	return c.take(s)
}

// carry brings what a key has in use under the limit that this one replaces.
func (c *core) carry(s *seat, sh *shard, key string, now times) bool {
	steps := 0
	for old := s.limit.old; old != nil && steps < maxReplaced; old = old.old {
		steps++
		id := c.hash.as(old, s.id, s.limit)
		at := now[id.clock()] + old.rule.Shift(key)
		state, history, ok := sh.lift(id, old.rule, at, &c.rooms)
		if !ok {
			continue
		}
		state, history = convert(s.limit.rule, s.at, old.rule, at, state, history)
		if s.limit.rule.Long() {
			c.rooms.history.taken.Add(roomFor(s.limit.rule)) // be it full: the key is in use
			sh.enter(s.id, s.limit.rule, history)
		} else {
			sh.put(slot{s.id, state}, now, &c.rooms)
		}
		return true
	}
	return false
}

// maxReplaced is how many limits back a key's use is looked for.
const maxReplaced = 16

// convert expresses under rule r what a key has in use under another.
func convert(r *rule.Rule, at int64, old *rule.Rule, oldAt int64, state rule.State, h *rule.History) (rule.State, *rule.History) {
	if at == oldAt {
		return r.Carry(old, state, h, at)
	}
	used := min(old.Used(state, h, oldAt), r.Quota()) // the times differ, so they mean nothing to r
	if r.Long() {
		h = &rule.History{}
		r.Charge(h, at, used)
		return rule.State{}, h
	}
	state, _ = r.Take(rule.State{}, at, used)
	return state, nil
}
