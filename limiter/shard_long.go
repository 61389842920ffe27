package limiter

import "github.com/politehttp/polite/internal/rule"

// longs are the keys of one shard whose memory is a history.
type longs map[ident]*long

type long struct {
	history rule.History
	fresh   int64 // when it will equal that of a key never seen
	room    int64 // how many entries the history may come to
}

// roomFor is how many entries a history of r may come to.
func roomFor(r *rule.Rule) int64 {
	if r.Kind() == rule.SlidingLog {
		return r.Quota()
	}
	return int64(r.Cells()) + 1
}

func (l longs) free(rooms *rooms) {
	for id, e := range l {
		rooms.histories(id).give(e.room)
	}
}

// sweep returns what is not spent, in a new map if the old one has become too large.
func (l longs) sweep(now times, c *census, rooms *rooms) longs {
	before := len(l)
	for id, e := range l {
		if e.fresh > now[id.clock()] {
			c.count(id, e.fresh)
			continue
		}
		rooms.histories(id).give(e.room)
		delete(l, id)
	}
	if len(l) == 0 {
		return nil
	}
	if len(l) > before/3 {
		return l
	}
	kept := make(longs, len(l))
	for id, e := range l {
		kept[id] = e
	}
	return kept
}
