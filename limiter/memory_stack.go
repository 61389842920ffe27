package limiter

import (
	"math"
	"math/bits"
	"sync"

	"github.com/politehttp/polite/internal/rule"
)

// stack is several charges that are decided on at one instant: the shards
// concerned are locked, every limit is asked, and only if all admit is any
// charged.
//
// Its seats are listed in the order of their shards, in which they are locked, so
// that no two stacks wait for each other. Charges to one entry have one seat in
// the list.
type stack struct {
	core  *core
	seats []seat
	head  int32 // of the list; its end is none
	full  bool  // a key has found no room
	peek  bool  // nothing is to be charged
}

const none = -1

var seatPool = sync.Pool{New: func() any { return new([]seat) }}

// stack decides on charges; each is as long, and not yet that of d.
func (m *Memory) stack(each []Decision, charges []Charge, d *Decision) error {
	if len(charges) == 0 {
		d.Allowed = true
		return nil
	}
	c := m.start()
	allowed, ok := c.short(each, charges)
	if !ok {
		for i := range charges {
			if err := check(charges, i); err != nil {
				return err
			}
		}
		allowed = c.decide(each, charges, false)
	}
	d.join(each, allowed)
	return nil
}

// decide decides on charges that make sense, and makes none if it is a peek.
func (c *core) decide(each []Decision, charges []Charge, peek bool) (allowed bool) {
	seats := seatPool.Get().(*[]seat)
	if cap(*seats) < len(charges) {
		*seats = make([]seat, len(charges))
	}
	st := stack{core: c, seats: (*seats)[:len(charges)], peek: peek}
	allowed = st.decide(each, charges)
	clear(st.seats) // holds limits
	seatPool.Put(seats)
	return allowed
}

func (st *stack) decide(each []Decision, charges []Charge) (allowed bool) {
	steady := st.core.clock.steady()
	due := st.core.due(steady)
	st.head = none
	for i := range st.seats {
		st.seats[i].take(st.core, &charges[i])
		st.list(int32(i))
	}
	steady = st.lock(steady)
	for i := range st.seats {
		st.seats[i].time(st.core, &charges[i], steady)
	}
	st.sit(charges, st.core.times(steady))
	allowed = true
	for i := st.head; i != none; i = st.seats[i].next {
		s := &st.seats[i]
		allowed = s.ask(&each[i], s.cost) && allowed
	}
	if allowed && !st.peek {
		st.charge(steady)
	} else {
		st.decline(each)
	}

	due = due || st.full
	credit := st.unlock(due)
	if due {
		st.core.visit(st.core.times(steady), credit)
	}
	st.share(each)
	return allowed
}

// lock locks all shards, and returns the instant of the decision: no shard has
// seen a later one.
func (st *stack) lock(steady int64) int64 {
	for i, last := st.head, int32(none); i != none; i = st.seats[i].next {
		if s := &st.seats[i]; s.number != last {
			s.shard.lock()
			steady = s.shard.now(steady)
			last = s.number
		}
	}
	return steady
}

// unlock pays for the decision, and returns what the caller is to spend
// elsewhere.
func (st *stack) unlock(due bool) (credit int64) {
	for i, last := st.head, int32(none); i != none; i = st.seats[i].next {
		s := &st.seats[i]
		if s.number == last {
			continue
		}
		last = s.number
		if s.shard.credit += payment; due {
			credit += s.shard.credit
			s.shard.credit = 0
		}
		s.shard.mu.Unlock()
	}
	return credit
}

// share gives every charge the decision on the seat that stands for it, and
// gives back room that was not needed.
func (st *stack) share(each []Decision) {
	for i := range st.seats {
		root := int32(i)
		for st.seats[root].first != root {
			root = st.seats[root].first
		}
		if root != int32(i) {
			each[i] = each[root]
		}
		if st.seats[i].room {
			st.core.give(&st.seats[i])
		}
	}
}

// list puts a seat into the list, or adds its cost to that of the seat which the
// same entry has there, and reports that.
func (st *stack) list(i int32) bool {
	s := &st.seats[i]
	before := int32(none)
	at := st.head
	for at != none && st.seats[at].number <= s.number {
		if f := &st.seats[at]; f.id == s.id {
			f.cost = sum(f.cost, s.cost)
			if s.limit.rule.Quota() < f.limit.rule.Quota() {
				f.limit = s.limit // one replaces the other: what the tighter admits both do
			}
			s.first = at
			return true
		}
		before, at = at, st.seats[at].next
	}
	s.first, s.next = i, at
	if before == none {
		st.head = i
	} else {
		st.seats[before].next = i
	}
	return false
}

// unlist takes a seat out of the list.
func (st *stack) unlist(i int32) {
	at := &st.head
	for *at != i {
		at = &st.seats[*at].next
	}
	*at = st.seats[i].next
}

// sum is at most what no limit admits.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// charge makes the charges that ask has prepared: first where entries are, for
// new ones may move them.
func (st *stack) charge(steady int64) {
	fresh := false
	for i := st.head; i != none; i = st.seats[i].next {
		s := &st.seats[i]
		switch {
		case s.slot >= 0:
			s.shard.keep(int(s.slot), s.state)
		case s.slot == inHistory:
			s.shard.extend(s.id, s.limit.rule, s.at, s.cost)
		default:
			fresh = true
		}
	}
	if !fresh {
		return
	}
	for i := st.head; i != none; i = st.seats[i].next {
		s := &st.seats[i]
		if !s.room || s.cost == 0 {
			continue
		}
		s.room = false
		if r := s.limit.rule; r.Long() {
			h := &rule.History{}
			r.Charge(h, s.at, s.cost)
			s.shard.enter(s.id, r, h)
		} else {
			s.shard.put(slot{s.id, s.state}, st.core.times(steady), &st.core.rooms)
		}
	}
}

// decline makes the decisions those of a stack that is not charged.
func (st *stack) decline(each []Decision) {
	for i := st.head; i != none; i = st.seats[i].next {
		s := &st.seats[i]
		if each[i].Allowed && s.cost > 0 {
			s.ask(&each[i], 0)
		}
		if st.peek {
			s.delay(&each[i])
		}
		if s.slot >= 0 {
			s.shard.keep(int(s.slot), s.state) // it differs only if the clock has gone back
		}
	}
}

// join makes d of the decisions on each charge.
func (d *Decision) join(each []Decision, allowed bool) {
	by := &each[0]
	delay, overflow := by.Delay, by.Overflow
	for i := 1; i < len(each); i++ {
		e := &each[i]
		delay = max(delay, e.Delay)
		overflow = overflow || e.Overflow
		if allowed && tighter(e, by) || !allowed && e.RetryAfter > by.RetryAfter {
			by = e
		}
	}
	d.Allowed, d.Never, d.By = by.Allowed, by.Never, by.By
	d.Quota, d.Remaining = by.Quota, by.Remaining
	d.RetryAfter, d.ResetAfter, d.Delay = by.RetryAfter, by.ResetAfter, delay
	d.Overflow = overflow
}

// tighter says that a has the smaller part of its quota left.
func tighter(a, b *Decision) bool {
	hi, lo := bits.Mul64(uint64(a.Remaining), uint64(b.Quota))
	hi2, lo2 := bits.Mul64(uint64(b.Remaining), uint64(a.Quota))
	return hi < hi2 || hi == hi2 && lo < lo2
}
