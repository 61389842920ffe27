package gradient

import (
	"math"
	"time"

	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/sim"
)

// limiter is what is tried at the door of a house.
type limiter interface {
	Sample(now, rtt int64, inFlight int, dropped bool)
	Limit() int
}

type fixed int

func (f fixed) Sample(int64, int64, int, bool) {}
func (f fixed) Limit() int                     { return int(f) }

// house is a server in virtual time: workers behind an endless queue of their
// own, which the limit at the door is to keep short. With one seed the same
// requests come at the same instants, whatever the limit.
type house struct {
	*sim.Sim
	workers func(now int64) int
	service func() int64
	refuses func(inFlight int) bool // whether what the requests need refuses them at once; nil: never
	limiter limiter
	gate    *admission.Gate // the queue at the door; nil: who finds no room is refused
	wake    int64

	busy     int
	queue    []func()
	inFlight int

	arrived []int64
	done    []answer
	states  []state
}

type answer struct {
	at, rtt int64
	whole   int64 // with the wait at the door
}

// state is looked at each 10 ms.
type state struct{ limit, busy, workers int }

const look = 10 * time.Millisecond

func newHouse(seed uint64, workers int, mean time.Duration, perSecond float64, l limiter) *house {
	h := &house{Sim: sim.New(seed), limiter: l, wake: math.MaxInt64}
	h.workers = func(int64) int { return workers }
	h.service = func() int64 { return h.Exp(mean) }
	h.Poisson(sim.PerSecond(perSecond), h.arrive)
	return h
}

// behind puts the gate's queue at the door.
func (h *house) behind(order admission.Order) *house {
	h.gate = admission.New(admission.Config{
		Limit:   h.limiter.Limit(),
		Order:   order,
		MaxWait: int64(50 * time.Millisecond),
	}, 1)
	return h
}

func (h *house) run(until time.Duration) *house {
	for at := h.Now(); at < int64(until); at += int64(look) {
		h.Run(at)
		h.states = append(h.states, state{h.limiter.Limit(), h.busy, h.workers(at)})
	}
	h.Run(int64(until))
	return h
}

func (h *house) arrive() {
	came, service := h.Now(), h.service()
	h.arrived = append(h.arrived, came)
	if h.gate == nil {
		if h.inFlight < h.limiter.Limit() {
			h.enter(came, service, func() {})
		}
		return
	}
	t := &admission.Ticket{}
	t.Value = func() { h.enter(came, service, func() { h.gate.Leave(t, h.Now(), true) }) }
	if h.gate.Arrive(t, came) == admission.Admitted {
		t.Value.(func())()
	}
	h.serve()
}

// serve lets in who waits at the door.
func (h *house) serve() {
	for {
		t, verdict := h.gate.Next(h.Now())
		if t == nil {
			break
		}
		if verdict == admission.Admitted {
			t.Value.(func())()
		}
	}
	if due := h.gate.Due(); due < h.wake {
		h.wake = due
		h.At(due, func() {
			h.wake = math.MaxInt64
			h.serve()
		})
	}
}

func (h *house) enter(came, service int64, leave func()) {
	admitted := h.Now()
	h.inFlight++
	end := func(dropped bool) {
		h.limiter.Sample(h.Now(), h.Now()-admitted, h.inFlight, dropped)
		h.inFlight--
		leave()
		if !dropped {
			h.done = append(h.done, answer{h.Now(), h.Now() - admitted, h.Now() - came})
		}
		if h.gate != nil {
			h.gate.SetLimit(h.limiter.Limit())
			h.serve()
		}
	}
	if h.refuses != nil && h.refuses(h.inFlight) {
		h.After(int64(100*time.Microsecond), func() { end(true) })
		return
	}
	h.queue = append(h.queue, func() {
		h.After(service, func() {
			h.busy--
			h.work()
			end(false)
		})
	})
	h.work()
}

func (h *house) work() {
	for len(h.queue) > 0 && h.busy < h.workers(h.Now()) {
		h.busy++
		next := h.queue[0]
		h.queue = h.queue[1:]
		next()
	}
}

// phase is what happened in a part of a run.
type phase struct {
	arrived   float64 // a second
	goodput   float64 // a second
	used      float64 // the share of the workers' time
	p99       time.Duration
	whole     time.Duration // p99 with the wait at the door
	low, high int           // the limit
	mean      float64       // the limit
}

func (h *house) phase(from, to time.Duration) phase {
	p := phase{low: math.MaxInt}
	within := func(at int64) bool { return at >= int64(from) && at < int64(to) }
	for _, at := range h.arrived {
		if within(at) {
			p.arrived += 1 / (to - from).Seconds()
		}
	}
	var rtts, wholes []int64
	for _, a := range h.done {
		if within(a.at) {
			rtts = append(rtts, a.rtt)
			wholes = append(wholes, a.whole)
		}
	}
	p.goodput = float64(len(rtts)) / (to - from).Seconds()
	p.p99 = time.Duration(sim.Percentile(rtts, 0.99))
	p.whole = time.Duration(sim.Percentile(wholes, 0.99))
	states := h.states[from/look : to/look]
	for _, s := range states {
		p.low, p.high = min(p.low, s.limit), max(p.high, s.limit)
		p.mean += float64(s.limit) / float64(len(states))
		p.used += float64(s.busy) / float64(s.workers) / float64(len(states))
	}
	return p
}
