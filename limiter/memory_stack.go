package limiter

import (
	"context"
	"math"
	"math/bits"
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// maxSeats is how many charges a stack may have before it allocates.
const maxSeats = 8

// stack decides on several charges at one instant: it locks the shards
// concerned, asks every limit, and only if all admit charges any. each has the
// length of charges.
func (m *Memory) stack(ctx context.Context, each []Decision, charges []Charge, d *Decision) error {
	for i := range charges {
		if err := check(charges, i); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(charges) == 0 {
		d.Allowed = true
		return nil
	}
	c := m.start()
	now := c.now()
	var few [maxSeats]seat
	seats := few[:0]
	if len(charges) > maxSeats {
		seats = make([]seat, 0, len(charges))
	}
	for i := range charges {
		seats = append(seats, c.seat(&charges[i], now))
		merge(seats)
	}

	c.lock(seats)
	c.sit(seats, charges, now)
	allowed := true
	for i := range seats {
		if seats[i].first == i && !c.ask(&seats[i], &each[i], seats[i].cost) {
			allowed = false
		}
	}
	if allowed {
		c.charge(seats, now)
	} else {
		c.decline(seats, each)
	}
	due := c.due(now[0])
	full, credit := c.unlock(seats, due)

	if due || full {
		c.visit(now, credit)
	}
	for i := range seats {
		root := i
		for seats[root].first != root {
			root = seats[root].first
		}
		if root != i {
			each[i] = each[root]
		}
	}
	d.join(each, allowed)
	return nil
}

// merge adds the cost of the last seat to the first seat of the same entry,
// which stands for both.
func merge(seats []seat) {
	last := len(seats) - 1
	s := &seats[last]
	s.first = last
	for i := range seats[:last] {
		if f := &seats[i]; f.id == s.id && f.first == i {
			s.first = i
			if f.cost > math.MaxInt64-s.cost {
				f.cost = math.MaxInt64 // which no limit admits
			} else {
				f.cost += s.cost
			}
			return
		}
	}
}

// lock locks the shards of all seats in the order of their numbers, so that no
// two stacks wait for each other.
func (c *core) lock(seats []seat) {
	for shard := next(seats, -1); shard >= 0; shard = next(seats, shard) {
		c.shards[shard].mu.Lock()
	}
}

// next returns the least of the seats' shards beyond one, or -1.
func next(seats []seat, shard int) int {
	least := -1
	for i := range seats {
		if n := seats[i].shard; n > shard && (least < 0 || n < least) {
			least = n
		}
	}
	return least
}

// unlock pays for the decision. It returns whether a key has found no room, and
// what the caller has to spend elsewhere if it is to.
func (c *core) unlock(seats []seat, due bool) (full bool, credit int64) {
	for i := range seats {
		s := &seats[i]
		full = full || s.full
		if s.room {
			c.give(s) // it was not needed
		}
		c.shards[s.shard].credit += payment
	}
	if due || full {
		sh := &c.shards[seats[0].shard]
		credit, sh.credit = sh.credit, 0
	}
	for shard := next(seats, -1); shard >= 0; shard = next(seats, shard) {
		c.shards[shard].mu.Unlock()
	}
	return full, credit
}

// ask puts the decision on cost units into d, and into the seat what its entry
// would hold.
func (c *core) ask(s *seat, d *Decision, cost int64) bool {
	r := s.limit.rule
	v := rule.Verdict{Retry: noEntry, Reset: noEntry}
	switch {
	case s.none:
	case r.Long():
		var h *rule.History
		if s.long != nil {
			h = &s.long.history
		}
		v = r.Ask(h, s.at, cost)
	default:
		s.state = rule.State{}
		if s.slot != noSlot {
			s.state = c.shards[s.shard].slots[s.slot].state
		}
		s.state, v = r.Take(s.state, s.at, cost)
	}
	*d = Decision{}
	d.set(s.limit, v)
	return d.Allowed
}

// noEntry is when a key may come again that has not even found an overflow entry.
const noEntry = int64(time.Second)

// charge makes the charges that ask has prepared. First where entries are: new
// ones may move them.
func (c *core) charge(seats []seat, now times) {
	for i := range seats {
		s := &seats[i]
		sh := &c.shards[s.shard]
		switch {
		case s.first != i:
		case s.long != nil:
			s.limit.rule.Charge(&s.long.history, s.at, s.cost)
			s.long.fresh = s.limit.rule.FreshAt(&s.long.history)
			sh.note(s.id, s.long.fresh)
		case s.slot != noSlot:
			sh.keep(s.slot, s.state)
		}
	}
	for i := range seats {
		s := &seats[i]
		if s.first != i || !s.room || s.cost == 0 {
			continue
		}
		s.room = false
		sh := &c.shards[s.shard]
		if s.limit.rule.Long() {
			h := &rule.History{}
			s.limit.rule.Charge(h, s.at, s.cost)
			sh.enter(s.id, s.limit.rule, h)
		} else {
			sh.put(slot{s.id, s.state}, now, &c.rooms)
		}
	}
}

// decline makes the decisions those of a stack that is not charged.
func (c *core) decline(seats []seat, each []Decision) {
	for i := range seats {
		s := &seats[i]
		if s.first != i {
			continue
		}
		if each[i].Allowed {
			c.ask(s, &each[i], 0)
		}
		if s.slot != noSlot {
			c.shards[s.shard].keep(s.slot, s.state) // it differs only if the clock has gone back
		}
	}
}

// join makes d of the decisions on each charge.
func (d *Decision) join(each []Decision, allowed bool) {
	by := &each[0]
	var delay time.Duration
	for i := range each {
		e := &each[i]
		delay = max(delay, e.Delay)
		if allowed && tighter(e, by) || !allowed && e.RetryAfter > by.RetryAfter {
			by = e
		}
	}
	*d = *by
	d.Delay = delay
	d.Each = each
}

// tighter says that a has the smaller part of its quota left.
func tighter(a, b *Decision) bool {
	hi, lo := bits.Mul64(uint64(a.Remaining), uint64(b.Quota))
	hi2, lo2 := bits.Mul64(uint64(b.Remaining), uint64(a.Quota))
	return hi < hi2 || hi == hi2 && lo < lo2
}
