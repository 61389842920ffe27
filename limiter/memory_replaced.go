package limiter

import "github.com/politehttp/polite/internal/rule"

// maxReplaced is how many limits back a key's use is looked for.
const maxReplaced = 16

// carry brings along what a key has in use under the limit that this one
// replaces, and reports whether there was any.
func (s *seat) carry(c *core, key string, now times) bool {
	old := s.limit.old
	for range maxReplaced {
		if old == nil {
			return false
		}
		id := as(old, s.id, s.limit)
		at := now[id.clock()] + old.rule.Shift(key)
		if state, h, ok := s.shard.lift(id, old.rule, at, &c.rooms); ok {
			r := s.limit.rule
			state, h = convert(r, s.at, old.rule, at, state, h)
			if r.Long() {
				r.Trim(h)
				c.rooms.history.taken.Add(roomFor(r)) // be it full: the key is in use
				s.shard.enter(s.id, r, h)
			} else {
				s.shard.put(slot{s.id, state}, now, &c.rooms)
			}
			return true
		}
		old = old.old
	}
	return false
}

// convert expresses under rule r what a key has in use under another.
func convert(r *rule.Rule, at int64, old *rule.Rule, oldAt int64, state rule.State, h *rule.History) (rule.State, *rule.History) {
	if at == oldAt {
		return r.Carry(old, state, h, at)
	}
	used := min(old.Used(state, h, oldAt), r.Quota()) // the times differ: they mean nothing to r
	if r.Long() {
		h = &rule.History{}
		r.Charge(h, at, used)
		return rule.State{}, h
	}
	state, _ = r.Take(rule.State{}, at, used)
	return state, nil
}
