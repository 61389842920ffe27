package pacer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/sim"
)

// trips drives an aimd through round trips in which so many calls, as many as
// may or fewer, leave together and are answered together.
type trips struct {
	*aimd
	now int64
}

func (r *trips) trip(calls, dropped int) {
	r.now += int64(10 * time.Millisecond)
	n := min(calls, r.max())
	for i := range n {
		r.left(r.now, i+1)
	}
	for i := range n {
		r.heard(n-i, i < dropped)
		r.ended(n - i - 1)
	}
}

func (r *trips) limits(n, calls int) (all []int) {
	for range n {
		r.trip(calls, 0)
		all = append(all, r.max())
	}
	return all
}

func TestAIMDDoublesUntilTheFirstDrop(t *testing.T) {
	r := &trips{aimd: newAIMD(0)}
	assert.Equal(t, 20, r.max())
	assert.Equal(t, []int{40, 80, 160, 200, 200}, r.limits(5, 1000), "concurrency-limits#35")
	r = &trips{aimd: newAIMD(400)}
	assert.Equal(t, 400, r.limits(5, 1000)[4])
	r = &trips{aimd: newAIMD(8)}
	assert.Equal(t, []int{8, 8}, r.limits(2, 1000), "concurrency-limits#155: at its most it stays")
}

func TestAIMDAddsOneEachRoundTrip(t *testing.T) {
	r := &trips{aimd: newAIMD(0)}
	r.trip(20, 1)
	assert.Equal(t, 18, r.max())
	assert.Equal(t, []int{19, 20, 21, 22}, r.limits(4, 1000))
}

// However many of one flight are dropped, it is cut once, and again only for
// calls that left after that.
func TestAIMDCutsOnceARoundTrip(t *testing.T) {
	for dropped := 1; dropped <= 20; dropped++ {
		r := &trips{aimd: newAIMD(0)}
		r.trip(20, dropped)
		assert.Equal(t, 18, r.max(), "%d of 20", dropped)
		r.trip(18, dropped)
		assert.Equal(t, 16, r.max())
	}
	r := &trips{aimd: newAIMD(0)}
	for range 60 {
		r.trip(1000, 1000)
	}
	assert.Equal(t, 1, r.max(), "never less")
}

func TestAIMDGrowsOnlyWhereHalfIsUsed(t *testing.T) {
	r := &trips{aimd: newAIMD(0)}
	assert.Equal(t, []int{20, 20, 20, 20}, r.limits(4, 9))
	assert.Equal(t, []int{40, 40, 40, 40}, r.limits(4, 10))
	r = &trips{aimd: newAIMD(0)}
	r.trip(20, 1)
	assert.Equal(t, []int{18, 18}, r.limits(2, 8))
	assert.Equal(t, []int{19, 20, 21, 21}, r.limits(4, 10), "21 is more than twice ten")
}

// What ends unheard, because the caller gave it up or it never was sent, moves
// nothing, and keeps nothing from moving.
func TestAIMDIsNotMovedByWhatIsUnheard(t *testing.T) {
	r := &trips{aimd: newAIMD(0)}
	r.trip(20, 1)
	for range 100 {
		r.now++
		for i := range 18 {
			r.left(r.now, i+1)
		}
		for i := range 18 {
			r.ended(17 - i)
		}
	}
	assert.Equal(t, 18, r.max())
	assert.Equal(t, []int{19, 20, 21}, r.limits(3, 1000), "a round trip for each")
	r.trip(1000, 1)
	assert.Equal(t, 18, r.max(), "of 21")
}

// Answers that are still read hold their places, while others come and go one
// at a time: each of these is a round trip of its own.
func TestAIMDBesideStreams(t *testing.T) {
	a := newAIMD(0)
	for i := range 15 {
		a.left(0, i+1)
		a.heard(i+1, false)
	}
	one := func(dropped bool) int {
		a.left(0, 16)
		a.heard(16, dropped)
		a.ended(15)
		return a.max()
	}
	assert.Equal(t, []int{40, 36, 32, 29}, []int{one(false), one(true), one(true), one(true)})
	assert.Equal(t, []int{30, 31, 32, 33, 33}, []int{one(false), one(false), one(false), one(false), one(false)})
}

func TestAIMDForgets(t *testing.T) {
	r := &trips{aimd: newAIMD(0)}
	r.trip(20, 1)
	r.now += aimdForgets - int64(time.Second)
	r.trip(1, 0)
	assert.Equal(t, 18, r.max())
	require.Equal(t, r.now+aimdForgets, r.fresh())
	r.now = r.fresh() - int64(10*time.Millisecond)
	r.trip(1, 0)
	assert.Equal(t, 20, r.max())
	assert.Zero(t, r.fresh())
}

func TestAIMDStaysInBounds(t *testing.T) {
	holds := func(seed uint64, most uint8) bool {
		random := rand.New(rand.NewPCG(seed, 0))
		a := newAIMD(int(most))
		top := int(most)
		if most == 0 {
			top = 200
		}
		inFlight, now := 0, int64(0)
		for range 3000 {
			now += random.Int64N(1 << random.IntN(40))
			switch n := random.IntN(5); {
			case n < 2 && inFlight < a.max():
				inFlight++
				a.left(now, inFlight)
			case n < 4 && inFlight > 0:
				if random.IntN(5) > 0 {
					a.heard(inFlight, random.IntN(20) == 0)
				}
				inFlight--
				a.ended(inFlight)
			case inFlight > 0 && random.IntN(10) == 0:
				a.heard(inFlight, false) // twice: misuse
			}
			if a.max() < 1 || a.max() > top || a.out < 0 || a.out > inFlight || a.stale > a.out || a.round > a.out {
				t.Logf("%+v with %d in flight", a, inFlight)
				return false
			}
		}
		return true
	}
	assert.NoError(t, quick.Check(holds, &quick.Config{MaxCount: rounds(200)}))
}

// A server of ten workers and a queue of ten that refuses the rest, and a
// hundred callers who want as much as they get: nine tenths of its capacity and
// more are used, and few calls refused. It loses half of its workers, and gets
// them back.
func TestAIMDFindsTheRoomThereIs(t *testing.T) {
	worst := 1.0
	for seed := range uint64(rounds(10)) {
		s := sim.New(seed)
		a := newAIMD(0)
		workers, busy, inFlight := 10, 0, 0
		served, refused := make([]float64, 90), make([]float64, 90)
		var queue []func()
		var callers []func() // who wait for a place in flight
		serve := func(answered func()) {
			busy++
			s.After(s.Exp(50*time.Millisecond), func() {
				busy--
				served[s.Now()/1e9]++
				answered()
				if len(queue) > 0 && busy < workers {
					next := queue[0]
					queue = queue[1:]
					next()
				}
			})
		}
		next := func() {
			for len(callers) > 0 && inFlight < a.max() {
				call := callers[0]
				callers = callers[1:]
				call()
			}
		}
		var leave func()
		leave = func() {
			inFlight++
			a.left(s.Now(), inFlight)
			land := func(dropped bool) func() {
				return func() {
					a.heard(inFlight, dropped)
					inFlight--
					a.ended(inFlight)
					callers = append(callers, leave)
					next()
				}
			}
			s.After(int64(5*time.Millisecond), func() {
				switch {
				case busy < workers:
					serve(func() { s.After(int64(5*time.Millisecond), land(false)) })
				case len(queue) < 10:
					queue = append(queue, func() { serve(func() { s.After(int64(5*time.Millisecond), land(false)) }) })
				default:
					refused[s.Now()/1e9]++
					s.After(int64(5*time.Millisecond), land(true))
				}
			})
		}
		for range 100 {
			callers = append(callers, leave)
		}
		s.At(0, next)
		s.At(int64(30*time.Second), func() { workers = 5 })
		s.At(int64(60*time.Second), func() { workers = 10 })
		s.Run(int64(90 * time.Second))
		for _, phase := range []struct {
			from, to int
			capacity float64
		}{{5, 30, 200}, {35, 60, 100}, {65, 90, 200}} {
			ok, no := 0.0, 0.0
			for second := phase.from; second < phase.to; second++ {
				ok += served[second]
				no += refused[second]
			}
			use := ok / phase.capacity / float64(phase.to-phase.from)
			worst = min(worst, use)
			assert.GreaterOrEqual(t, use, 0.9, "seed %d from %d s: of the capacity", seed, phase.from)
			assert.LessOrEqual(t, no/(ok+no), 0.05, "seed %d from %d s: refused", seed, phase.from)
		}
	}
	t.Logf("at worst %.1f %% of the capacity were used", 100*worst)
}

// Through the Pacer: calls wait for a place, and leave as soon as there is one.
func TestAdaptInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{AdaptInFlight: true}
		calls, limit := p.InFlight("k")
		assert.Equal(t, []int{0, 20}, []int{calls, limit})
		left := make(chan func(), 100)
		for range 100 {
			go func() {
				release, err := p.Wait(t.Context(), "k", 1)
				assert.NoError(t, err)
				left <- release
			}()
		}
		synctest.Wait()
		require.Len(t, left, 20)
		p.Adapt("k", true)
		_, limit = p.InFlight("k")
		assert.Equal(t, 18, limit)
		(<-left)()
		(<-left)()
		synctest.Wait()
		assert.Len(t, left, 18, "nobody leaves")
		for range 100 {
			select {
			case release := <-left:
				p.Adapt("k", false)
				release()
			default:
			}
			synctest.Wait()
		}
		for len(left) > 0 {
			(<-left)()
		}
		calls, limit = p.InFlight("k")
		assert.Zero(t, calls)
		assert.Greater(t, limit, 18)

		p.Adapt("k", true) // of a call that is over
		p.Adapt("unknown", true)
		_, again := p.InFlight("k")
		assert.Equal(t, limit, again)
		assert.Equal(t, 1, p.Stats().Keys)

		plain := &Pacer{}
		plain.Adapt("k", true)
		calls, limit = plain.InFlight("k")
		assert.Equal(t, []int{0, 0}, []int{calls, limit})
		_, limit = (&Pacer{MaxInFlight: 7}).InFlight("k")
		assert.Equal(t, 7, limit)
		_, limit = (&Pacer{MaxInFlight: 7, AdaptInFlight: true}).InFlight("k")
		assert.Equal(t, 7, limit)
	})
}

// Who waits leaves when there is more room, though nobody made any.
func TestAdaptInFlightReachesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{AdaptInFlight: true}
		for range 50 {
			go func() {
				_, err := p.Wait(t.Context(), "k", 1)
				if t.Context().Err() == nil {
					assert.NoError(t, err)
				}
			}()
		}
		synctest.Wait()
		calls, _ := p.InFlight("k")
		require.Equal(t, 20, calls)
		p.Adapt("k", false)
		synctest.Wait()
		calls, limit := p.InFlight("k")
		assert.Equal(t, []int{40, 40}, []int{calls, limit})
	})
}

// A key that has adapted stays known until it equals a new one.
func TestAdaptInFlightAtTheBoundOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{AdaptInFlight: true, MaxKeys: 2}
		use := func(key string) {
			release, err := p.Wait(t.Context(), key, 1)
			require.NoError(t, err)
			p.Adapt(key, key == "dropped")
			release()
		}
		use("dropped")
		for i := range 1000 {
			use(fmt.Sprint("key ", i))
		}
		_, limit := p.InFlight("dropped")
		assert.Equal(t, 18, limit)
		assert.Equal(t, 2, p.Stats().Keys)
		assert.Zero(t, p.Stats().Overflowed)
		time.Sleep(5 * time.Minute)
		use("another")
		use("and another")
		_, limit = p.InFlight("dropped")
		assert.Equal(t, 20, limit, "forgotten")
		assert.Equal(t, 2, p.Stats().Keys)
	})
}

func TestAdaptInFlightAllocatesNothing(t *testing.T) {
	p := &Pacer{AdaptInFlight: true}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		release, _ := p.Wait(t.Context(), "k", 1)
		p.Adapt("k", false)
		release()
	}))
}
