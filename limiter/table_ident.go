package limiter

import (
	"hash/maphash"

	"github.com/politehttp/polite/internal/rule"
)

// ident is what a Memory keeps of a limit and a key: 125 bits of hash under
// two secret seeds, which no client can search for collisions. Of a million
// keys some two share theirs with a probability of about 10⁻²⁶.
//
// The highest bits of hi come from the key alone and choose the shard, so that
// all limits of a key lie behind one lock. The lowest bits of lo are flags.
type ident struct{ hi, lo uint64 }

const (
	shardBits = 12 // of hi; the most a Memory uses

	flagUsed     = 1 << 0 // the slot holds an entry
	flagWall     = 1 << 1 // its times are those of the wall clock
	flagOverflow = 1 << 2 // it is shared by keys that found no room
	flags        = flagUsed | flagWall | flagOverflow
)

func (id ident) empty() bool    { return id.lo == 0 }
func (id ident) overflow() bool { return id.lo&flagOverflow != 0 }

// clock is the index of its clock in times.
func (id ident) clock() int { return int(id.lo >> 1 & 1) }

// The clocks, as indexes of times.
const (
	steadyClock = iota
	wallClock
)

// times is an instant by each clock.
type times [2]int64

// hasher makes identities, with seeds of its own.
type hasher struct{ a, b maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

func (h *hasher) of(l *Limit, key string) ident {
	return mix(maphash.String(h.a, key), maphash.String(h.b, key), l)
}

// shared is the identity that keys of l without room share, of those with the
// same first bits of hi.
func (h *hasher) shared(l *Limit, hi uint64, bits uint) ident {
	id := mix(hi>>(64-bits)<<(64-bits), maphash.String(h.b, "overflow"), l)
	id.lo |= flagOverflow
	return id
}

// as is the identity under limit l of the key that has id under limit of.
func as(l *Limit, id ident, of *Limit) ident {
	hi, lo := salt(of)
	return mix(id.hi^hi, id.lo^lo, l)
}

// mix puts in the limit.
func mix(hi, lo uint64, l *Limit) ident {
	a, b := salt(l)
	return ident{hi ^ a, (lo^b)&^flags | flagUsed | clockFlag(l)}
}

// salt is what tells limits apart: no two have the same.
func salt(l *Limit) (hi, lo uint64) {
	return l.id * 0x9e3779b97f4a7c15 >> shardBits, l.id * 0xd6e8feb86659fd93 << 3
}

// clockFlag says by which clock a limit goes: windows that the calendar starts
// follow the wall clock when it is set, all else counts elapsed time.
func clockFlag(l *Limit) uint64 {
	switch l.rule.Kind() {
	case rule.Calendar:
		return flagWall
	case rule.FixedWindow:
		if l.rule.Align() != rule.ToFirst {
			return flagWall
		}
	}
	return 0
}
