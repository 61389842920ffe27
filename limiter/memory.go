package limiter

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Memory keeps the state of limits in this process. The zero value is ready to
// use. It must not be copied, and its fields must not change after first use.
//
// It knows a limit by its pointer, or by that of the limit it replaces, and
// counts time by the monotonic clock; windows and quotas that the calendar
// starts follow the wall clock, and notice within a second that it was set.
//
// Keys are kept as a hash under secret seeds, 32 bytes with the state and up to
// 64 with all that is around it; text of a key is not kept. A key whose state
// equals that of a key never seen is forgotten at leisure: each decision pays
// for looking at a few entries, and there is no goroutine. A key in use never
// goes.
//
// At the bound a key that is new finds no room, and is charged to one of a few
// overflow entries that such keys of its limit share. They are limited as one
// key is, so a flood of identities cannot take more than those admit, and
// cannot make anybody's exhausted key new.
type Memory struct {
	// MaxKeys is how many keys may have an entry of their own, each under each
	// of its limits. Zero: 1<<20. Negative: unbounded. There may be an eighth as
	// many overflow entries, at least 1,024.
	MaxKeys int
	// MaxHistory bounds what keys of SlidingLog and SlidingBuckets may have to
	// remember: it is the most that their quotas, and their cells and one, may sum
	// up to, whatever of it they use. Of a log of 10,000 the default so gives an
	// entry of its own to 419 keys: for many keys prefer SlidingBuckets, or another
	// rule. What is remembered takes 16 to 64 bytes each, and a key some 130
	// beside. At the bound new keys share overflow entries, of which each limit has
	// one for every 4,096 of MaxKeys at most. Zero: 1<<22. Negative: unbounded.
	MaxHistory int

	once sync.Once
	core atomic.Pointer[core]
}

// MemoryStats is what a Memory holds, and what it had to do.
type MemoryStats struct {
	Keys       int   // entries, those that are spent and not yet forgotten included
	Overflow   int   // overflow entries among them
	Bytes      int64 // memory that they take
	Overflowed int64 // charges that were made to an overflow entry, or refused for want of one
}

const (
	defaultMaxKeys    = 1 << 20
	defaultMaxHistory = 1 << 22
	minOverflow       = 1024
)

// Take charges all of charges, or none if one does not fit. It decides at one
// instant. No charges are admitted, by no limit.
//
// Of a refused Decision, Each says which charges would have been admitted. Costs
// that sum up to more than an int64 holds can never be admitted. It fails, and
// charges nothing, only if a charge has no limit or a negative cost.
//
// It does not wait, and does not look at ctx: who has sent a request and left
// before it was answered is charged like anybody, or leaving at once would be
// the way around every limit.
//
// A single charge allocates nothing; for several see [Memory.TakeInto].
func (m *Memory) Take(_ context.Context, charges ...Charge) (d Decision, err error) {
	if len(charges) == 1 {
		err = m.single(charges, &d)
		return d, err
	}
	each := make([]Decision, len(charges))
	if err = m.stack(each, charges, &d); err == nil {
		d.Each = each
	}
	return d, err
}

// TakeInto is Take with each for the decision's Each: if its capacity suffices,
// nothing is allocated.
func (m *Memory) TakeInto(_ context.Context, each []Decision, charges ...Charge) (d Decision, err error) {
	if len(charges) == 1 {
		err = m.single(charges, &d)
		return d, err
	}
	if cap(each) < len(charges) {
		each = make([]Decision, len(charges))
	}
	if err = m.stack(each[:len(charges)], charges, &d); err == nil {
		d.Each = each[:len(charges)]
	}
	return d, err
}

// Refund gives back what was just charged, but never more than is in use; see
// [Store] about what was charged a while ago. A key
// without an entry of its own is given nothing: what it shares with others may
// be theirs. It does not look at ctx either, and fails only if a charge has no
// limit or a negative cost, and then gives nothing back.
func (m *Memory) Refund(_ context.Context, charges ...Charge) error {
	for i := range charges {
		if err := check(charges, i); err != nil {
			return err
		}
	}
	c := m.start()
	for i := range charges {
		c.refund(&charges[i])
	}
	return nil
}

// Stats walks through all shards and locks each in turn.
func (m *Memory) Stats() MemoryStats { return m.start().stats() }

// check says what is wrong with a charge.
func check(charges []Charge, i int) error {
	switch l := charges[i].Limit; {
	case l == nil:
		return fmt.Errorf("limiter: Charge %d of %d has no Limit", i+1, len(charges))
	case l.rule == nil:
		return fmt.Errorf("limiter: Charge %d of %d has a Limit that no constructor made", i+1, len(charges))
	case charges[i].Cost < 0:
		return fmt.Errorf("limiter: Charge %d of %d, to limit %q, has Cost %d: it may be 0 or more; Refund gives back", i+1, len(charges), l.name, charges[i].Cost)
	}
	return nil
}

// start makes the parts at the first use.
func (m *Memory) start() *core {
	if c := m.core.Load(); c != nil {
		return c
	}
	m.once.Do(func() {
		m.core.Store(newCore(bound(m.MaxKeys, defaultMaxKeys), bound(m.MaxHistory, defaultMaxHistory)))
	})
	return m.core.Load()
}

func bound(n, zero int) int64 {
	switch {
	case n < 0:
		return math.MaxInt64 / 2
	case n == 0:
		return int64(zero)
	}
	return int64(n)
}
