package admission

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/internal/sim"
)

// tally is what one tenant, or one kind of them, asked for and got.
type tally struct {
	asked, got int
	waits      []int64
}

func (y *tally) share() float64 { return float64(y.got) / float64(y.asked) }

// town is a server of 1,000 a second and its tenants, from 10 s to 80 s.
type town struct {
	*house
	tallies map[string]*tally
}

const townFrom, townUntil = 10, 80

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
		if w.Now() >= townFrom*second {
			y.asked++
		}
		w.arrive(&Ticket{Tenant: name(), Value: y})
	})
}

func (w *town) run() { w.Run((townUntil + 1) * second) }

func named(s string) func() string { return func() string { return s } }

func TestFair(t *testing.T) {
	for _, order := range []Order{Wine, Milk} {
		for _, queue := range []int{0, 100} {
			share, p99, hogs := 1., 0., 1e9
			for seed := range uint64(10) {
				w := newTown(Config{Order: order, Queue: queue}, seed)
				w.tenant("hog", 5000, named("hog"))
				for i := range 9 {
					w.tenant(strconv.Itoa(i), 50, named(strconv.Itoa(i)))
				}
				w.run()
				for i := range 9 {
					y := w.tallies[strconv.Itoa(i)]
					share = min(share, y.share())
					p99 = max(p99, float64(sim.Percentile(y.waits, .99))/1e6)
				}
				hogs = min(hogs, float64(w.tallies["hog"].got)/(townUntil-townFrom))
			}
			fmt.Println("fair", order, queue, share, p99, hogs)
		}
	}
}

func TestCrowd(t *testing.T) {
	for _, order := range []Order{Wine, Milk} {
		var before, after runtime.MemStats
		share, got := 1., 1e9
		for seed := range uint64(2) {
			w := newTown(Config{Order: order}, seed)
			names := make([]string, 200_000)
			for i := range names {
				names[i] = fmt.Sprintf("someone-%d", i)
			}
			w.tenant("crowd", 10_000, func() string { return names[w.Rand.IntN(len(names))] })
			for i := range 10 {
				w.tenant(strconv.Itoa(i), 50, named(strconv.Itoa(i)))
			}
			w.run()
			for i := range 10 {
				share = min(share, w.tallies[strconv.Itoa(i)].share())
			}
			got = min(got, float64(w.tallies["crowd"].got)/(townUntil-townFrom))
			g := w.gate
			w = nil
			runtime.GC()
			runtime.ReadMemStats(&before)
			runtime.KeepAlive(g)
			g = nil
			runtime.GC()
			runtime.ReadMemStats(&after)
			fmt.Println("KiB", (before.HeapAlloc-after.HeapAlloc)/1024)
		}
		fmt.Println("crowd", order, share, got)
		assert.Greater(t, share, .9)
	}
}
