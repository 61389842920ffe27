// Package sim runs a model in virtual time: events at instants, one after the
// other, and a source of random numbers. A run is a pure function of its seed.
//
//	s := sim.New(1)
//	s.Poisson(sim.PerSecond(100), func() {   // clients arrive
//		s.After(s.Exp(10*time.Millisecond), func() { … })   // and are served
//	})
//	s.Run(int64(time.Minute))
//
// Instants are nanoseconds from the beginning of the run. Nothing here sleeps,
// locks or starts a goroutine; a Sim belongs to one goroutine.
package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Sim is one run. It is made by [New].
type Sim struct {
	// Rand is what everything random in the run is drawn from.
	Rand *rand.Rand

	now   int64
	count uint64
	queue []event // a heap: the next event first
	do    []func()
	free  []int32 // places in do
}

// event is without a pointer, so that moving it costs the collector nothing.
type event struct {
	at    int64
	order uint64 // of those at one instant, the one that was planned first
	do    int32
}

// New returns a run that begins at 0.
func New(seed uint64) *Sim {
	return &Sim{Rand: rand.New(rand.NewPCG(seed, 0x706f6c697465))}
}

// Now returns the instant of the event that runs.
func (s *Sim) Now() int64 { return s.now }

// At runs f at an instant, after what was planned for it before; one that has
// passed counts as now.
func (s *Sim) At(t int64, f func()) {
	place := int32(len(s.do))
	if n := len(s.free); n > 0 {
		place, s.free = s.free[n-1], s.free[:n-1]
		s.do[place] = f
	} else {
		s.do = append(s.do, f)
	}
	e := event{max(t, s.now), s.count, place}
	s.count++
	s.queue = append(s.queue, e)
	i := len(s.queue) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&s.queue[parent]) {
			break
		}
		s.queue[i] = s.queue[parent]
		i = parent
	}
	s.queue[i] = e
}

// After runs f after d nanoseconds.
func (s *Sim) After(d int64, f func()) { s.At(s.now+max(d, 0), f) }

// Run runs all events before the instant until, which is the time then. It may
// be called again to go on.
func (s *Sim) Run(until int64) {
	for len(s.queue) > 0 && s.queue[0].at < until {
		e := s.next()
		f := s.do[e.do]
		s.do[e.do] = nil
		s.free = append(s.free, e.do)
		s.now = e.at
		f()
	}
	s.now = max(s.now, until)
}

func (s *Sim) next() event {
	first := s.queue[0]
	last := len(s.queue) - 1
	e := s.queue[last]
	s.queue = s.queue[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s.queue[child+1].before(&s.queue[child]) {
			child++
		}
		if !s.queue[child].before(&e) {
			break
		}
		s.queue[i] = s.queue[child]
		i = child
	}
	if last > 0 {
		s.queue[i] = e
	}
	return first
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// Exp draws a duration in nanoseconds from the exponential distribution.
func (s *Sim) Exp(mean time.Duration) int64 {
	return int64(s.Rand.ExpFloat64() * float64(mean))
}

// PerSecond is a rate for [Sim.Poisson] that does not change.
func PerSecond(rate float64) func(now int64) float64 {
	return func(int64) float64 { return rate }
}

// idle is how often a rate of nothing is looked at again.
const idle = int64(10 * time.Millisecond)

// Poisson runs f for each arrival of a Poisson process from now on, for as long
// as the run goes. The rate may change with time: a gap follows the rate at its
// beginning.
func (s *Sim) Poisson(perSecond func(now int64) float64, f func()) {
	var again func(arrive bool)
	again = func(arrive bool) {
		if arrive {
			f()
		}
		rate := perSecond(s.now)
		if rate <= 0 {
			s.After(idle, func() { again(false) })
			return
		}
		s.After(int64(s.Rand.ExpFloat64()*float64(time.Second)/rate), func() { again(true) })
	}
	again(false)
}

// Percentile returns the smallest value that p of all values, from 0 to 1, do
// not exceed, and 0 without values. It sorts them.
func Percentile[T int | int64 | float64 | time.Duration](values []T, p float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	slices.Sort(values)
	rank := int(math.Ceil(p*float64(len(values)))) - 1
	return values[min(max(rank, 0), len(values)-1)]
}
