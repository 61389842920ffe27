package shed_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/shed"
)

// server has so many workers, and work for each request that takes a random
// time around the mean. What comes beyond the workers waits within it, and no
// processor is busy with that.
type server struct {
	workers chan struct{}
	mean    atomic.Int64
	random  *rand.Rand // used by run alone
}

func newServer(workers int, mean time.Duration) *server {
	s := &server{workers: make(chan struct{}, workers), random: rand.New(rand.NewPCG(1, 2))}
	s.mean.Store(int64(mean))
	return s
}

func (s *server) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.workers <- struct{}{}
	defer func() { <-s.workers }()
	share := r.Context().Value(shareKey{}).(float64)
	time.Sleep(time.Duration(share * float64(s.mean.Load())))
}

type shareKey struct{}

// answer keeps the status alone.
type answer struct{ status int }

func (a *answer) Header() http.Header         { return http.Header{} }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

// load is what came of the requests of a run.
type load struct{ served, refused atomic.Int64 }

// run sends requests at random moments, on average so many a second, for so long
// and waits for the last answer. Each takes between half of the mean and one and
// a half.
func (s *server) run(h http.Handler, rate float64, period time.Duration, every func()) *load {
	l := new(load)
	end := time.Now().Add(period)
	var open atomic.Int64
	for time.Now().Before(end) {
		time.Sleep(time.Duration(s.random.ExpFloat64() / rate * float64(time.Second)))
		r := request("/")
		r = r.WithContext(context.WithValue(r.Context(), shareKey{}, 0.5+s.random.Float64()))
		open.Add(1)
		go func() {
			defer open.Add(-1)
			w := &answer{status: http.StatusOK}
			h.ServeHTTP(w, r)
			if w.status == http.StatusOK {
				l.served.Add(1)
			} else {
				l.refused.Add(1)
			}
		}()
		if every != nil {
			every()
		}
	}
	for open.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	return l
}

func limit(g *shed.Gate) int { return g.Stats().Limit }

func instantRefusals(t *testing.T) {
	large(t)
	g := &shed.Gate{Adaptive: &shed.Adaptive{Initial: 20, Min: 4}}
	s := newServer(1000, time.Millisecond)
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer shed.Done(r.Context(), false) // the callee said no, at once
		s.ServeHTTP(w, r)
	}))
	s.run(h, 30_000, time.Second, func() {
		if limit(g) > 20 {
			t.Fatal("the limit rises")
		}
	})
	assert.LessOrEqual(t, limit(g), 20)
}

func atTheMaximum(t *testing.T) {
	large(t)
	g := &shed.Gate{Adaptive: &shed.Adaptive{Initial: 20, Max: 50}}
	s := newServer(1000, 20*time.Millisecond)
	reached, least := false, 50
	s.run(g.Handler(s), 2_400, 20*time.Second, func() {
		n := limit(g)
		reached = reached || n == 50
		if reached {
			least = min(least, n)
		}
	})
	assert.True(t, reached)
	assert.GreaterOrEqual(t, least, 40)
}

func roomIsFound(t *testing.T) {
	large(t)
	g := &shed.Gate{Adaptive: &shed.Adaptive{Initial: 20}}
	s := newServer(1000, 50*time.Millisecond)
	began, found := time.Now(), time.Duration(0)
	s.run(g.Handler(s), 9_000, 6*time.Second, func() {
		if found == 0 && limit(g) >= 400 {
			found = time.Since(began)
		}
	})
	assert.NotZero(t, found)
	assert.LessOrEqual(t, found, 5*time.Second)
}

func longIncident(t *testing.T) {
	large(t)
	g := &shed.Gate{}
	s := newServer(20, 100*time.Millisecond)
	h := g.Handler(s)
	s.run(h, 300, time.Minute, nil) // of 200 that it can do
	s.mean.Store(int64(time.Second))
	slow := s.run(h, 30, 30*time.Minute, nil) // of 20
	during := limit(g)
	s.mean.Store(int64(100 * time.Millisecond))
	s.run(h, 300, 20*time.Second, nil)
	after := s.run(h, 300, time.Minute, nil)
	const ideal = 26 // all workers busy, and a few more for when one of them is free
	assert.LessOrEqual(t, during, 2*ideal)
	assert.GreaterOrEqual(t, slow.served.Load(), int64(20*30*60*85/100))
	assert.GreaterOrEqual(t, after.served.Load(), int64(200*60*95/100))
	assert.LessOrEqual(t, limit(g), 2*ideal)
}

func residualErrors(t *testing.T) {
	large(t)
	g := &shed.Gate{Adaptive: &shed.Adaptive{Initial: 4, Min: 4}}
	s := newServer(100, 50*time.Millisecond)
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		if r.Context().Value(shareKey{}).(float64) < 0.505 { // one in 200
			shed.Done(r.Context(), false)
		}
	}))
	s.run(h, 2_500, 12*time.Second, nil)
	end := s.run(h, 2_500, 5*time.Second, nil)
	assert.GreaterOrEqual(t, end.served.Load(), int64(2_000*5*90/100))
}

func probingIsFree(t *testing.T) {
	large(t)
	g := &shed.Gate{}
	s := newServer(20, 50*time.Millisecond)
	l := s.run(g.Handler(s), 0.78*400, 3*time.Minute, nil)
	assert.LessOrEqual(t, l.refused.Load(), l.served.Load()/1000)
}

func probesApart(t *testing.T) {
	large(t)
	// When the limit first turns down to probe, in processes that began together
	// under the same load: the very first turn is that it found the server full.
	first := func() time.Duration {
		g := &shed.Gate{}
		s := newServer(20, 50*time.Millisecond)
		last, probed := 0, time.Duration(0)
		began := time.Now()
		s.run(g.Handler(s), 500, 20*time.Second, func() {
			n, at := limit(g), time.Since(began)
			if n < last && at > 3*time.Second && probed == 0 {
				probed = at
			}
			last = n
		})
		return probed
	}
	var all []time.Duration
	for range 8 {
		all = append(all, first())
	}
	slices.Sort(all)
	together := 0
	for i := range all[1:] {
		if all[i+1]-all[i] < 250*time.Millisecond {
			together++
		}
	}
	assert.LessOrEqual(t, together, 5, "%v", all)
}

func slotToTheEnd(t *testing.T) {
	// The work takes 20 ms, and after a while clients take a second to read.
	g := &shed.Gate{Adaptive: &shed.Adaptive{Initial: 20, Min: 4}}
	s := newServer(1000, 20*time.Millisecond)
	var reading atomic.Int64
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		shed.Done(r.Context(), true)
		shed.Done(r.Context(), false) // too late
		time.Sleep(time.Duration(reading.Load()))
	}))
	s.run(h, 500, 10*time.Second, nil)
	before := limit(g)
	require.GreaterOrEqual(t, before, 20)
	reading.Store(int64(time.Second))
	most := 0
	s.run(h, 500, 20*time.Second, func() { most = max(most, g.Stats().InFlight) })
	assert.GreaterOrEqual(t, most, before, "who reads holds a slot")
	assert.GreaterOrEqual(t, limit(g), before)
}

func lockBound(t *testing.T) {
	g := &shed.Gate{}
	s := newServer(1, 5*time.Millisecond) // one lock, and 200 a second
	h := g.Handler(s)
	s.run(h, 600, 30*time.Second, nil)
	l := s.run(h, 600, 30*time.Second, nil)
	synctest.Wait()
	assert.GreaterOrEqual(t, l.served.Load(), int64(200*30*90/100))
	assert.Greater(t, l.refused.Load(), int64(300*30))
}

func TestDoneOfWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Adaptive: &shed.Adaptive{Initial: 20, Min: 4}}
		var ended []context.Context
		for range 100 {
			var slots []shed.Slot
			for range limit(g) {
				slot, err := g.Enter(t.Context(), shed.Entry{})
				require.NoError(t, err)
				slots = append(slots, slot)
			}
			time.Sleep(20 * time.Millisecond)
			for _, ctx := range ended { // their visits are used again
				shed.Done(ctx, false)
			}
			for _, slot := range slots {
				if len(ended) < 20 {
					ended = append(ended, slot.Context(t.Context()))
				}
				slot.Leave()
			}
		}
		assert.Greater(t, limit(g), 20)
	})
}
