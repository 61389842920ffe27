package limiter

import (
	"math"
	"math/bits"

	"github.com/politehttp/polite/internal/rule"
)

// slot is all that is kept of a key whose memory is two words. It holds no
// pointer, so the garbage collector does not look into a table.
type slot struct {
	id    ident
	state rule.State
}

// spent says that the entry equals a key never seen, whatever its limit is.
func (s *slot) spent(now times) bool { return s.state.A <= now[s.id.clock()] }

// table is a hash table with open addressing and linear probing: an entry lies
// between its home and the next empty slot. Spent entries stay until a sweep
// removes them or a new entry takes their slot.
type table struct {
	slots []slot
	used  int
}

// Where an entry is if it is in no slot.
const (
	noSlot    = -1 // nowhere
	inHistory = -2 // it is not two words, but a history
)

// home is the slot where the search for an identity starts: the first of the two
// in a cache line, so that most searches look at one line. Sizes are even.
func (t *table) home(id ident) int {
	i, _ := bits.Mul64(id.hi<<shardBits, uint64(len(t.slots)))
	return int(i) &^ 1
}

// find returns where an identity is, or noSlot.
func (t *table) find(id ident) int {
	slots := t.slots
	if len(slots) == 0 {
		return noSlot
	}
	for i := t.home(id); ; {
		s := &slots[i]
		if s.id == id {
			return i
		}
		if s.id.empty() {
			return noSlot
		}
		if i++; i == len(slots) {
			i = 0
		}
	}
}

// spot returns where to put an identity that is not there: at a spent entry on
// its way, or else at the empty slot at its end. There must be one.
func (t *table) spot(id ident, now times) int {
	for i := t.home(id); ; {
		if s := &t.slots[i]; s.id.empty() || s.spent(now) {
			return i
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// full says whether one more entry would make searches long: for what is not
// there 13 slots on average at four fifths, and 50 at nine tenths.
func (t *table) full() bool { return (t.used+1)*5 > len(t.slots)*4 }

// grow makes the table larger by half. Doubling would leave 80 bytes an entry
// at worst, this leaves 60.
func (t *table) grow() {
	old := t.slots
	*t = tableFor(t.used + t.used/2)
	for i := range old {
		if !old[i].id.empty() {
			t.place(old[i])
		}
	}
}

// tableFor makes an empty table with room for n entries and one more. Sizes are
// such that the allocator wastes nothing: it gives whole pages beyond 32 KiB.
func tableFor(n int) table {
	slots := n*5/4 + 2
	switch {
	case slots <= 64:
		slots = (slots + 7) &^ 7
	case slots <= 1024:
		slots = (slots + 63) &^ 63
	default:
		slots = (slots + 255) &^ 255
	}
	return table{slots: make([]slot, slots)}
}

// place puts in an entry that is not there, where there is room.
func (t *table) place(s slot) {
	i := t.home(s.id)
	for !t.slots[i].id.empty() {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	t.slots[i] = s
	t.used++
}

// remove empties a slot and moves up those who could not be found any more.
func (t *table) remove(i int) {
	n := len(t.slots)
	for j := i; ; {
		if j++; j == n {
			j = 0
		}
		s := &t.slots[j]
		if s.id.empty() {
			break
		}
		// Who has come at least as far from home as from i may stand at i.
		if cyclic(j-t.home(s.id), n) >= cyclic(j-i, n) {
			t.slots[i] = *s
			i = j
		}
	}
	t.slots[i] = slot{}
	t.used--
}

func cyclic(d, n int) int {
	if d < 0 {
		d += n
	}
	return d
}

// census is what a sweep finds out about the entries it leaves.
type census struct {
	own, spare  int64
	first, last times // when the first of them will be spent, and when all, by each clock
}

func newCensus() census {
	return census{first: times{math.MaxInt64, math.MaxInt64}}
}

func (c *census) count(id ident, fresh int64) {
	if id.overflow() {
		c.spare++
	} else {
		c.own++
	}
	k := id.clock()
	c.first[k] = min(c.first[k], fresh)
	c.last[k] = max(c.last[k], fresh)
}

// bring brings entries closer that lie further ahead of the wall clock than any
// limit looks: they came while it was wrong, and would keep their room until then.
func (t *table) bring(most int64) {
	for i := range t.slots {
		if s := &t.slots[i]; s.id.clock() == wallClock {
			s.state.A = min(s.state.A, most)
		}
	}
}

// sweep removes what is spent, and gives back memory beyond that of what is not,
// and of as many as will come soon.
func (t *table) sweep(now times, c *census, soon int) {
	live := 0
	for i := range t.slots {
		if s := &t.slots[i]; !s.id.empty() && !s.spent(now) {
			c.count(s.id, s.state.A)
			live++
		}
	}
	need := max(live, soon)
	switch {
	case live == 0:
		t.empty(soon)
	case need*3 <= len(t.slots):
		old := t.slots
		*t = tableFor(need + need/4)
		for i := range old {
			if s := &old[i]; !s.id.empty() && !s.spent(now) {
				t.place(*s)
			}
		}
	case live < t.used:
		for i := 0; i < len(t.slots); {
			if s := &t.slots[i]; !s.id.empty() && s.spent(now) {
				t.remove(i)
			} else {
				i++
			}
		}
	}
}

// empty removes all.
func (t *table) empty(soon int) {
	switch {
	case soon == 0:
		t.slots = nil
	case soon*3 <= len(t.slots):
		t.slots = tableFor(soon + soon/4).slots
	default:
		clear(t.slots)
	}
	t.used = 0
}
