package admission

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/sim"
)

// tally is what one tenant, or one kind of them, asked for and got.
type tally struct {
	asked, got int
	waits      []int64
}

// town is a server of 1,000 a second and its tenants, from 3 s to 20 s.
type town struct {
	*house
	tallies map[string]*tally
}

const townFrom, townUntil = 3, 20

func newTown(c Config, seed uint64) *town {
	c.Limit = 10
	w := &town{newHouse(c, seed, exponential(10*time.Millisecond)), map[string]*tally{}}
	w.served = func(t *Ticket) {
		if y := t.Value.(*tally); t.arrived >= townFrom*second {
			y.got++
			y.waits = append(y.waits, t.Waited())
		}
	}
	return w
}

// tenant lets one kind ask so often, by names.
func (w *town) tenant(kind string, perSecond float64, name func() string) {
	y := &tally{}
	w.tallies[kind] = y
	w.Poisson(sim.PerSecond(perSecond), func() {
		if w.Now() >= townFrom*second && w.Now() < townUntil*second {
			y.asked++
		}
		w.arrive(&Ticket{Tenant: name(), Value: y})
	})
}

// small lets so many ask 50 times a second each.
func (w *town) small(n int) {
	for i := range n {
		name := strconv.Itoa(i)
		w.tenant(name, 50, func() string { return name })
	}
}

// worst is the least share that one of the small ones got, and the 99th
// percentile of what they waited.
func (w *town) worst(n int) (share float64, p99 time.Duration) {
	share = 1
	var waits []int64
	for i := range n {
		y := w.tallies[strconv.Itoa(i)]
		share = min(share, float64(y.got)/float64(y.asked))
		waits = append(waits, y.waits...)
	}
	return share, time.Duration(sim.Percentile(waits, .99))
}

// perSecond is what a kind got.
func (w *town) perSecond(kind string) float64 {
	return float64(w.tallies[kind].got) / (townUntil - townFrom)
}

// TestHog: one asks for five times what there is, nine for a twentieth each.
func TestHog(t *testing.T) {
	large(t)
	for _, c := range []Config{{Queue: 100}, {}, {Order: Milk}} {
		t.Run(fmt.Sprintf("queue=%d,order=%d", c.Queue, c.Order), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				w := newTown(c, seed)
				w.tenant("hog", 5000, func() string { return "hog" })
				w.small(9)
				w.Run(townUntil * second)
				share, p99 := w.worst(9)
				t.Logf("worst share %.4f p99 %v hog %.0f/s", share, p99, w.perSecond("hog"))
				assert.GreaterOrEqual(t, share, .98)
				assert.LessOrEqual(t, p99, 15*time.Millisecond)
				assert.InDelta(t, 1000-9*50, w.perSecond("hog"), 40)
			}
		})
	}
	t.Run("without tenants", func(t *testing.T) {
		w := newTown(Config{}, 1)
		w.tenant("hog", 5000, func() string { return "" })
		w.tenant("0", 50, func() string { return "" })
		w.Run(townUntil * second)
		share, _ := w.worst(1)
		assert.Less(t, share, .3)
	})
}

// TestCrowd: 200,000 names come once in 20 s each, ten tenants 50 times a
// second; nobody told the gate who is who.
func TestCrowd(t *testing.T) {
	large(t)
	names := make([]string, 200_000)
	for i := range names {
		names[i] = fmt.Sprintf("someone-%d", i)
	}
	for _, order := range []Order{Wine, Milk} {
		for seed := range uint64(3) {
			w := newTown(Config{Order: order}, seed)
			w.tenant("crowd", 10_000, func() string { return names[w.Rand.IntN(len(names))] })
			w.small(10)
			w.Run(townUntil * second)
			share, p99 := w.worst(10)
			t.Logf("worst share %.4f p99 %v crowd %.0f/s", share, p99, w.perSecond("crowd"))
			assert.GreaterOrEqual(t, share, .98)
			assert.LessOrEqual(t, p99, 15*time.Millisecond)
			assert.InDelta(t, 500, w.perSecond("crowd"), 40)
		}
	}
}

// TestInventedNames: a hog that sends every request under another name has the
// crowd's share, as long as others come more often than one entry's part of all
// who wait: 5,450 a second over 1,024 entries.
func TestInventedNames(t *testing.T) {
	large(t)
	w := newTown(Config{}, 1)
	n := 0
	w.tenant("hog", 5000, func() string { n++; return fmt.Sprint("name-", n) })
	w.small(9)
	w.Run(townUntil * second)
	share, _ := w.worst(9)
	assert.GreaterOrEqual(t, share, .98)
	assert.InDelta(t, 550, w.perSecond("hog"), 40)
}

// TestMemoryOfAGate fills everything that can be filled.
func TestMemoryOfAGate(t *testing.T) {
	large(t)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const ids = 200_000
	tickets := make([]Ticket, ids)
	for i := range tickets {
		tickets[i] = Ticket{Tenant: fmt.Sprintf("someone-%d", i), Class: Class(i%4 - 1), Known: i%7 == 0}
	}
	before := heap()
	g := New(Config{Limit: 100, Queue: 1000}, 1)
	for i := range tickets {
		now := int64(i) * 10_000
		g.Arrive(&tickets[i], now)
		if i%3 == 0 && i >= 300 {
			g.Leave(&tickets[i-300], now, true)
		}
		for k, v := g.Next(now); k != nil; k, v = g.Next(now) {
			if v == Admitted {
				g.Leave(k, now, true)
			}
		}
	}
	used := heap() - before
	t.Logf("%d KiB with %d names of tenants, %d waiting", used/1024, ids, g.Waiting())
	assert.Less(t, used, int64(1<<20))
	assert.Equal(t, DefaultMaxTenants, len(g.census.names))
	runtime.KeepAlive(tickets)
	runtime.KeepAlive(g)
}

// TestTurns serves five tenants who never stop asking: once what all of them had
// saved is used, none is ever ahead of another by more than one request of each.
func TestTurns(t *testing.T) {
	for _, order := range []Order{Wine, Milk} {
		g := New(Config{Limit: 1, Queue: 1000, MaxWait: -1, Order: order}, 1)
		random := rand.New(rand.NewPCG(1, 2))
		weights := []int{1, 1, 2, 3, 5}
		served := make([]float64, len(weights))
		ask := func(i int) {
			g.Arrive(&Ticket{Tenant: strconv.Itoa(i), Weight: weights[i], Value: i}, 0)
		}
		running := &Ticket{}
		require.Equal(t, Admitted, g.Arrive(running, 0))
		for i := range weights {
			for range 30 {
				ask(i)
			}
		}
		for n := range 20_000 {
			if n == advance*len(weights) {
				clear(served)
			}
			require.True(t, g.Leave(running, 0, false))
			var v Verdict
			running, v = g.Next(0)
			require.Equal(t, Admitted, v)
			i := running.Value.(int)
			served[i]++
			for range 1 + random.IntN(2) { // more than it is served, never empty
				ask(i)
			}
			for k, _ := g.Next(0); k != nil; k, _ = g.Next(0) {
			}
			for a := range weights {
				for b := range weights {
					if ahead := served[a]/float64(weights[a]) - served[b]/float64(weights[b]); n >= advance*len(weights) && ahead > 1/float64(weights[a])+1/float64(weights[b])+1e-9 {
						t.Fatalf("%d is %v turns ahead of %d", a, ahead, b)
					}
				}
			}
		}
		for i := range weights {
			assert.InDelta(t, (20_000-float64(advance*len(weights)))/12*float64(weights[i]), served[i], float64(weights[i]), "tenant %d", i)
		}
	}
}
