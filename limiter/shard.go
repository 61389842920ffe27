package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// shard is a part of a Memory's keys behind one lock.
//
// To write to a cache line that another processor wrote to last costs more than a
// decision does. So the entry of a key that is asked for again and again moves to
// the lock's own line, where also stands all else that its decisions write; and no
// two shards share a line.
type shard struct {
	mu     sync.Mutex
	hot    slot  // that entry, instead of what its slot holds; empty: none
	credit int64 // entries that this shard's decisions have paid for looking at
	seen   int64 // latest steady instant of a decision
	recent int   // slot of the last decision, or noSlot

	table       // the keys whose memory is two words
	last  times // no entry is in use from then on,
	first times // and none is spent before

	longs  longs // the keys with a history
	spare  int64 // overflow entries among all
	shared int64 // charges that were sent to one of those
	swept  int64 // steady instant of the last sweep
	came   int64 // entries that have come since
	_      [24]byte
}

// lock locks the shard for whoever looks into its slots.
func (s *shard) lock() {
	s.mu.Lock()
	s.cool()
}

// cool puts what is hot back into its slot.
func (s *shard) cool() {
	if !s.hot.id.empty() {
		s.bring()
	}
}

// bring does so. Nothing but decisions on it came in between, so that the slot is
// where it was.
func (s *shard) bring() {
	s.keep(s.find(s.hot.id), s.hot.state)
	s.hot, s.recent = slot{}, noSlot
}

// heat moves the entry of a slot that is decided on for the second time in a row.
func (s *shard) heat(i int) {
	if i == s.recent {
		s.hot = s.slots[i]
	}
	s.recent = i
}

// payment is how many entries a decision pays for: what sweeps look at in the
// long run. To grow moves some three entries for each new key.
const payment = 5

// empty forgets all.
func (s *shard) empty() {
	s.longs, s.spare = nil, 0
	s.first = times{math.MaxInt64, math.MaxInt64}
	s.last = times{}
	s.seen = 0
	s.recent = noSlot
}

// now is the steady instant of a decision, for a goroutine that read the clock
// before it came by the lock. Others may have been faster: to the rules the
// clock must not seem to have stepped back.
func (s *shard) now(steady int64) int64 {
	s.seen = max(s.seen, steady)
	return s.seen
}

// note keeps first and last true when an entry is written that will be spent at
// fresh.
func (s *shard) note(id ident, fresh int64) {
	k := id.clock()
	if fresh > s.last[k] {
		s.last[k] = fresh
	}
	if fresh < s.first[k] {
		s.first[k] = fresh
	}
}

// replace enters an identity that has none where a spent one of its kind lies on
// the way, and reports whether there is one.
func (s *shard) replace(e slot, now times) bool {
	if len(s.slots) == 0 {
		return false
	}
	at := &s.slots[s.spot(e.id, now)]
	if at.id.empty() || at.id.overflow() != e.id.overflow() {
		return false
	}
	*at = e
	s.came++
	s.note(e.id, e.state.A)
	return true
}

// put enters an identity that has none, and has been given room. A spent entry
// on its way makes place, else a sweep that is paid for, else a larger table.
func (s *shard) put(e slot, now times, rooms *rooms) {
	if s.full() {
		s.credit -= s.sweep(now, rooms, s.credit)
		if s.full() {
			s.grow()
		}
	}
	at := &s.slots[s.spot(e.id, now)]
	if at.id.empty() {
		s.used++
	} else {
		rooms.entries(at.id).give(1)
		if at.id.overflow() {
			s.spare--
		}
	}
	if e.id.overflow() {
		s.spare++
	}
	*at = e
	s.came++
	s.note(e.id, e.state.A)
}

// keep stores what an entry holds now.
func (s *shard) keep(i int, state rule.State) {
	e := &s.slots[i]
	if e.state != state {
		e.state = state
		s.note(e.id, state.A)
	}
}

// enter enters the history of an identity that has none, and has been given room.
func (s *shard) enter(id ident, r *rule.Rule, h *rule.History) {
	if s.longs == nil {
		s.longs = longs{}
	}
	s.longs[id] = &long{history: *h, fresh: r.FreshAt(h), room: roomFor(r)}
	if id.overflow() {
		s.spare++
	}
	s.note(id, s.longs[id].fresh)
}

// extend charges an entry with a history.
func (s *shard) extend(id ident, r *rule.Rule, at, cost int64) {
	e := s.longs[id]
	r.Charge(&e.history, at, cost)
	e.fresh = r.FreshAt(&e.history)
	s.note(id, e.fresh)
}

// shorten gives back to an entry with a history.
func (s *shard) shorten(id ident, r *rule.Rule, at, cost int64) {
	e := s.longs[id]
	r.Return(&e.history, at, cost)
	e.fresh = r.FreshAt(&e.history)
	s.note(id, e.fresh)
}

// lift takes out what an identity has in use, and keeps the room of its entry
// for another; not that of its history.
func (s *shard) lift(id ident, r *rule.Rule, at int64, rooms *rooms) (state rule.State, h *rule.History, ok bool) {
	if r.Long() {
		e := s.longs[id]
		if e == nil || e.fresh <= at {
			return state, nil, false
		}
		rooms.histories(id).give(e.room)
		delete(s.longs, id)
		return state, &e.history, true
	}
	i := s.find(id)
	if i == noSlot || s.slots[i].state.A <= at {
		return state, nil, false
	}
	state = s.slots[i].state
	s.remove(i)
	return state, nil, true
}

// sweep forgets what is spent, if something can be and credit pays for looking
// at every entry, and returns what it cost. If all are spent it looks at none.
func (s *shard) sweep(now times, rooms *rooms, credit int64) int64 {
	entries := int64(s.used + len(s.longs))
	if entries == 0 {
		if s.soon(now) == 0 {
			s.slots = nil
		}
		return 0
	}
	most := now[wallClock] + rooms.reach.Load()
	ahead := s.last[wallClock] > most
	if s.first[steadyClock] > now[steadyClock] && s.first[wallClock] > now[wallClock] && !ahead {
		return 0
	}
	own, spare := entries-s.spare, s.spare
	cost := int64(len(s.slots) + len(s.longs))
	c := newCensus()
	if s.last[steadyClock] <= now[steadyClock] && s.last[wallClock] <= now[wallClock] {
		cost = int64(len(s.longs))
		s.longs.free(rooms)
		s.empty()
		s.table.empty(s.soon(now))
	} else if credit < cost {
		return 0
	} else {
		if ahead {
			s.table.bring(most)
		}
		s.table.sweep(now, &c, s.soon(now))
		s.longs = s.longs.sweep(now, &c, rooms)
	}
	s.spare, s.first, s.last = c.spare, c.first, c.last
	s.swept, s.came = now[steadyClock], 0
	rooms.own.give(own - c.own)
	rooms.spare.give(spare - c.spare)
	return cost
}

// soon is how many entries will come, at the pace of late, until a visit: a
// table that they would make grow again is left as it is.
func (s *shard) soon(now times) int {
	const until = int64(time.Second / 4)
	past := max(now[steadyClock]-s.swept, until)
	return int(float64(s.came) * float64(until) / float64(past))
}

// rooms counts what all shards hold, against the bounds.
type rooms struct {
	own, spare      room // entries
	history, shared room // what histories may come to, of own and of overflow entries

	reach atomic.Int64 // how far ahead of the wall clock an entry may lie
}

func (r *rooms) entries(id ident) *room {
	if id.overflow() {
		return &r.spare
	}
	return &r.own
}

func (r *rooms) histories(id ident) *room {
	if id.overflow() {
		return &r.shared
	}
	return &r.history
}

// room is a number of places that all shards share.
type room struct {
	taken atomic.Int64
	max   int64
}

func (r *room) take(n int64) bool {
	if r.taken.Add(n) <= r.max {
		return true
	}
	r.taken.Add(-n)
	return false
}

func (r *room) give(n int64) {
	if n != 0 {
		r.taken.Add(-n)
	}
}
