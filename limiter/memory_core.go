package limiter

import (
	"math/bits"
	"reflect"
	"sync/atomic"
	"time"
)

// core is the inside of a Memory: all that a decision needs.
type core struct {
	clock  clock
	hash   hasher
	shards []shard
	bits   uint // of an identity's hi, which say its shard

	_        [64]byte     // what precedes is hardly ever written,
	visited  atomic.Int64 // this once in a millisecond,
	_        [64]byte     // and what follows with every new key
	visiting atomic.Bool  // guards turn
	turn     uint64       // shards visited
	purse    atomic.Int64 // credit of shards that did not need it
	rooms    rooms
}

// visitEvery is the pace at which decisions visit the shards in turn, to sweep
// those where something is spent.
const visitEvery = int64(time.Millisecond)

// visitWork bounds the entries that one decision looks at elsewhere. A shard is
// not divided, so it may be a shard more.
const visitWork = 4096

// maxCredit bounds what visits save up, so that a quiet year does not buy a
// sweep at every decision.
const maxCredit = 1 << 22

// newCore has a shard for every 4,096 keys, a power of two from 1 to 4,096. So
// a small bound is kept by one, which knows all that can go.
func newCore(maxKeys, maxHistory int64) *core {
	shards := min(bits.Len64(uint64(maxKeys)/4096|1)-1, 8+4)
	if maxKeys > 1<<40 { // unbounded
		shards = 10
	}
	c := &core{
		hash:   newHasher(),
		shards: make([]shard, 1<<shards),
		bits:   uint(shards),
	}
	for i := range c.shards {
		c.shards[i].empty()
	}
	c.clock.start()
	c.visited.Store(c.clock.unix)
	c.rooms.own.max = maxKeys
	c.rooms.spare.max = max(maxKeys/8, minOverflow)
	c.rooms.history.max = maxHistory
	return c
}

// shardOf returns the number of an identity's shard.
func (c *core) shardOf(id ident) int { return int(id.hi >> (64 - c.bits)) }

// wall is a steady instant as a limit that goes by the wall clock counts it.
func (c *core) wall(charge *Charge, steady int64) int64 {
	r := charge.Limit.rule
	if reach := r.Reach(); reach > c.rooms.reach.Load() {
		c.rooms.reach.Store(reach) // of two at once one may be lost until it comes again
	}
	return c.clock.wall(steady) + r.Shift(charge.Key)
}

// times is a steady instant by both clocks.
func (c *core) times(steady int64) times {
	return times{steady, c.clock.wall(steady)}
}

// due says that shards are to be visited after a decision. It is asked before,
// with no lock held: it forgets everything if time has gone back, since a
// monotonic clock that does is another clock, see testing/synctest.
func (c *core) due(steady int64) bool {
	return uint64(steady-c.visited.Load()) >= uint64(visitEvery) && c.overdue(steady)
}

func (c *core) overdue(steady int64) bool {
	visited := c.visited.Load()
	if steady >= visited-int64(time.Second) {
		return true
	}
	// Who was kept from running since reading the clock is merely late: look again.
	if steady = c.clock.steady(); steady < visited-int64(time.Second) && c.visited.CompareAndSwap(visited, steady) {
		c.clock.compare.Store(steady)
		c.forget()
	}
	return true
}

// visit sweeps the shards whose turn it is: decisions come only where keys are
// in use, so somebody has to look elsewhere. After a pause many are due, and are
// divided among the decisions that follow. credit is of the shard that the caller
// comes from; it holds no lock.
func (c *core) visit(now times, credit int64) {
	if c.purse.Add(credit) > maxCredit {
		c.purse.Store(maxCredit)
	}
	if !c.visiting.CompareAndSwap(false, true) {
		return // somebody else does
	}
	defer c.visiting.Store(false)
	n := uint64(len(c.shards))
	turns := min(uint64(max(now[steadyClock]-c.visited.Load(), visitEvery)/visitEvery), n)
	for work := int64(0); turns > 0 && work < visitWork; turns-- {
		s := &c.shards[c.turn%n]
		c.turn++
		s.lock()
		work += c.sweep(s, now)
		s.mu.Unlock()
	}
	c.visited.Store(now[steadyClock] - int64(turns)*visitEvery)
}

// sweep sweeps a shard, which is locked, on its credit and that of the purse.
func (c *core) sweep(s *shard, now times) int64 {
	purse := c.purse.Swap(0)
	cost := s.sweep(now, &c.rooms, s.credit+purse)
	if rest := s.credit - cost; rest >= 0 {
		s.credit = rest
	} else {
		s.credit = 0
		purse += rest
	}
	c.purse.Add(purse)
	return cost
}

// forget makes every key new.
func (c *core) forget() {
	for i := range c.shards {
		s := &c.shards[i]
		s.lock()
		c.rooms.own.give(int64(s.used+len(s.longs)) - s.spare)
		c.rooms.spare.give(s.spare)
		s.longs.free(&c.rooms)
		s.empty()
		s.table.empty(0)
		s.mu.Unlock()
	}
}

// stats sums up what the shards hold.
func (c *core) stats() (st MemoryStats) {
	st.Bytes = sizeOf[core]()
	for i := range c.shards {
		s := &c.shards[i]
		s.lock()
		st.Keys += s.used + len(s.longs)
		st.Overflow += int(s.spare)
		st.Overflowed += s.shared
		st.Bytes += sizeOf[shard]() + int64(len(s.slots))*sizeOf[slot]()
		for _, e := range s.longs {
			st.Bytes += int64(e.history.Bytes()) + longOverhead
		}
		s.mu.Unlock()
	}
	return st
}

func sizeOf[T any]() int64 { return int64(reflect.TypeFor[T]().Size()) }

// longOverhead is what an entry with a history takes beside the history.
const longOverhead = 96

// refund gives back what one charge took, where it would be charged now.
func (c *core) refund(charge *Charge) {
	var s seat
	steady := s.enter(c, charge)
	defer s.shard.mu.Unlock()
	if !s.find() && !(s.carry(c, charge.Key, c.times(steady)) && s.find()) {
		return
	}
	r := s.limit.rule
	if s.slot == inHistory {
		s.shard.shorten(s.id, r, s.at, s.cost)
		return
	}
	s.shard.keep(int(s.slot), r.Refund(s.shard.slots[s.slot].state, s.at, s.cost))
}
