package limiter

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/rule"
)

// TestTableIsAMap holds a table against a map through inserts, removals and
// sweeps, with so few homes that searches run into each other and around the end.
func TestTableIsAMap(t *testing.T) {
	for seed := range uint64(rounds(60)) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var tab table
		want := map[ident]int64{}
		homes := 1 + rng.Uint64N(40)
		now := times{1000, 1000}
		for range 2000 {
			id := ident{rng.Uint64N(homes) << 46, rng.Uint64N(8)<<3 | flagUsed | rng.Uint64N(2)<<1}
			switch rng.IntN(10) {
			case 0:
				if i := tab.find(id); i != noSlot {
					tab.remove(i)
					delete(want, id)
				}
			case 1:
				now[rng.IntN(2)] += rng.Int64N(40)
			case 2:
				if rng.IntN(20) > 0 {
					break
				}
				c := newCensus()
				tab.sweep(now, &c, rng.IntN(2)*rng.IntN(100))
				first, last := times{1 << 62, 1 << 62}, times{}
				for id, fresh := range want {
					if k := id.clock(); fresh <= now[k] {
						delete(want, id)
					} else {
						first[k], last[k] = min(first[k], fresh), max(last[k], fresh)
					}
				}
				require.EqualValues(t, len(want), c.own)
				for k := range now {
					require.Equal(t, first[k], min(c.first[k], 1<<62))
					require.Equal(t, last[k], c.last[k])
				}
			default:
				fresh := now[id.clock()] + rng.Int64N(100)
				if i := tab.find(id); i != noSlot {
					tab.slots[i].state.A = fresh
				} else {
					if tab.full() {
						tab.grow()
					}
					i := tab.spot(id, now)
					if old := &tab.slots[i]; old.id.empty() {
						tab.used++
					} else {
						require.True(t, old.spent(now))
						delete(want, old.id)
					}
					tab.slots[i] = slot{id, rule.State{A: fresh}}
				}
				want[id] = fresh
			}
			require.Equal(t, len(want), tab.used)
			require.LessOrEqual(t, tab.used*5, len(tab.slots)*4)
		}
		for id, fresh := range want {
			i := tab.find(id)
			require.NotEqual(t, noSlot, i)
			require.Equal(t, fresh, tab.slots[i].state.A)
		}
	}
}

// TestTableSizes: no more than 63 bytes an entry once there are some, and whole
// pages where the allocator gives whole pages.
func TestTableSizes(t *testing.T) {
	var tab table
	now := times{}
	for n := range rounds(30_000) {
		if tab.full() {
			tab.grow()
		}
		id := ident{rand.Uint64(), rand.Uint64()&^flags | flagUsed}
		tab.slots[tab.spot(id, now)] = slot{id, rule.State{A: 1}}
		tab.used++
		size := len(tab.slots) * 32
		require.GreaterOrEqual(t, size*4/5, tab.used*32)
		if n > 1000 {
			require.LessOrEqual(t, size, tab.used*63)
			require.Zero(t, size%8192)
		}
	}
}

func TestIdentities(t *testing.T) {
	a, b := must(FixedWindow("a", 1, 1e9, ToClock)), must(TokenBucket("b", Per(1, 1e9), 1))
	h, other := newHasher(), newHasher()
	seen := map[ident]bool{}
	for _, l := range []*Limit{a, b} {
		for _, key := range []string{"", "x", "y", "a long key that is not hashed in one step, but in several"} {
			id := h.of(l, key)
			require.False(t, seen[id])
			seen[id] = true
			require.NotEqual(t, id, other.of(l, key), "seeds are a Memory's own")
			require.False(t, id.empty())
			require.False(t, id.overflow())
			require.Equal(t, h.of(a, key).hi>>(64-shardBits), id.hi>>(64-shardBits), "all limits of a key are in one shard")
			require.Equal(t, h.of(a, key), as(a, id, l))
			require.Equal(t, h.of(b, key), as(b, id, l))
			shared := h.shared(l, id.hi, 8)
			require.Equal(t, id.hi>>56, shared.hi>>56)
			require.True(t, shared.overflow())
			require.Equal(t, id.clock(), shared.clock())
		}
	}
	require.Equal(t, wallClock, h.of(a, "x").clock())
	require.Equal(t, steadyClock, h.of(b, "x").clock())
	require.NotEqual(t, h.shared(a, 0, 8), h.shared(b, 0, 8), "limits do not share overflow entries")
	require.NotEqual(t, h.shared(a, 0, 8), h.shared(a, 1<<60, 8))
	require.Equal(t, h.shared(a, 0, 0), h.shared(a, 1<<60, 0), "one shard")
}
