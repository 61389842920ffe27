package limiter

import "github.com/politehttp/polite/internal/rule"

// maxShort is how many charges may go the short way.
const maxShort = 4

// short decides on a few charges to different keys that all have an entry of
// two words, as they do all day. It puts the decisions into each, or returns
// false, having done nothing, so that who asks does it the long way.
//
// Three pairs of locks and three hashes are half of what it costs, so it keeps
// the rest small: what is stored before a lock delays it.
func (c *core) short(each []Decision, charges []Charge) (allowed, ok bool) {
	var ids [maxShort]ident
	var order [maxShort]uint32 // in which to lock: the shard's number, and two bits of which charge
	if len(charges) > maxShort {
		return false, false
	}
	steady := c.clock.steady()
	for i := range charges {
		l := charges[i].Limit
		if l == nil || l.rule == nil || l.rule.Long() || charges[i].Cost < 0 {
			return false, false
		}
		id := c.hash.of(l, charges[i].Key)
		ids[i] = id
		o := uint32(c.shardOf(id))<<2 | uint32(i)
		at := i
		for ; at > 0 && order[at-1] > o; at-- {
			order[at] = order[at-1]
		}
		order[at] = o
		for ; at > 0 && order[at-1]>>2 == o>>2; at-- {
			if ids[order[at-1]&3] == id {
				return false, false
			}
		}
	}

	due := c.due(steady)
	last := none
	for _, o := range order[:len(charges)] {
		if n := int(o >> 2); n != last {
			s := &c.shards[n]
			s.mu.Lock()
			s.cool()
			steady = s.now(steady)
			last = n
		}
	}
	var states [maxShort]*rule.State
	var next [maxShort]rule.State
	allowed, ok = true, true
	for _, o := range order[:len(charges)] {
		i := o & 3
		s := &c.shards[o>>2]
		s.seen = steady
		slot := s.find(ids[i])
		if slot == noSlot {
			ok = false
			break
		}
		at := steady
		if ids[i].clock() == wallClock {
			at = c.wall(&charges[i], steady)
		}
		states[i] = &s.slots[slot].state
		var v rule.Verdict
		next[i], v = charges[i].Limit.rule.Take(*states[i], at, charges[i].Cost)
		allowed = allowed && v.Retry == 0
		each[i].set(charges[i].Limit, v)
		each[i].Degraded, each[i].Each = nil, nil
	}
	due = due && ok
	credit := int64(0)
	for k, o := range order[:len(charges)] {
		i := o & 3
		s := &c.shards[o>>2]
		if ok {
			if !allowed && each[i].Allowed {
				next[i] = c.decline(&each[i], &charges[i], ids[i], *states[i], steady)
			}
			if *states[i] != next[i] {
				*states[i] = next[i]
				s.note(ids[i], next[i].A)
			}
		}
		if k+1 < len(charges) && order[k+1]>>2 == o>>2 {
			continue
		}
		if s.credit += payment; due {
			credit += s.credit
			s.credit = 0
		}
		s.mu.Unlock()
	}
	if due {
		c.visit(c.times(steady), credit)
	}
	return allowed, ok
}

// decline makes d the decision on a charge that fits and yet is not made.
func (c *core) decline(d *Decision, charge *Charge, id ident, state rule.State, steady int64) rule.State {
	at := steady
	if id.clock() == wallClock {
		at = c.wall(charge, steady)
	}
	state, v := charge.Limit.rule.Take(state, at, 0)
	d.set(charge.Limit, v)
	return state
}
