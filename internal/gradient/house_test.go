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

// house is a server: workers behind an endless queue of their own, which the
// limit is to keep short, and a door.
type house struct {
	*sim.Sim
	workers func(now int64) int
	service func() int64
	load    func(now int64) float64
	fate    func(inFlight int) bool // whether a request is refused inside, at once
	limiter limiter
	gate    *admission.Gate // nil: who finds no room at the door is refused
	wake    int64

	busy     int
	queue    []func()
	inFlight int

	done   []answer
	limits []int // each 100 ms
}

type answer struct{ at, rtt, whole int64 }

const tick = int64(100 * time.Millisecond)

func newHouse(seed uint64, workers int, service time.Duration, perSecond float64, l limiter) *house {
	h := &house{Sim: sim.New(seed), limiter: l}
	h.workers = func(int64) int { return workers }
	h.service = func() int64 { return h.Exp(service) }
	h.load = sim.PerSecond(perSecond)
	h.wake = math.MaxInt64
	return h
}

// behindQueue puts the gate's queue in front.
func (h *house) behindQueue(order admission.Order, wait time.Duration) *house {
	h.gate = admission.New(admission.Config{Limit: h.limiter.Limit(), Order: order, MaxWait: int64(wait)}, 1)
	return h
}

func (h *house) run(until time.Duration) *house {
	h.Poisson(func(now int64) float64 { return h.load(now) }, h.arrive)
	var look func()
	look = func() {
		h.limits = append(h.limits, h.limiter.Limit())
		h.After(tick, look)
	}
	h.At(0, look)
	h.Run(int64(until))
	return h
}

func (h *house) arrive() {
	came := h.Now()
	if h.gate == nil {
		if h.inFlight < h.limiter.Limit() {
			h.enter(came, func() {})
		}
		return
	}
	t := &admission.Ticket{}
	t.Value = func() { h.enter(came, func() { h.gate.Leave(t, h.Now(), true) }) }
	if h.gate.Arrive(t, came) == admission.Admitted {
		t.Value.(func())()
	}
	h.serve()
}

func (h *house) serve() {
	for {
		t, v := h.gate.Next(h.Now())
		if t == nil {
			break
		}
		if v == admission.Admitted {
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

func (h *house) enter(came int64, leave func()) {
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
	if h.fate != nil && h.fate(h.inFlight) {
		h.After(int64(100*time.Microsecond), func() { end(true) })
		return
	}
	h.queue = append(h.queue, func() {
		h.After(h.service(), func() {
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

// phase is what happened from one instant to another.
type phase struct {
	goodput  float64 // per second
	p99      time.Duration
	whole    time.Duration // p99 with the wait at the door
	low, top int           // the limit
	mean     float64
}

func (h *house) phase(from, to time.Duration) phase {
	var rtts, wholes []int64
	for _, a := range h.done {
		if a.at >= int64(from) && a.at < int64(to) {
			rtts = append(rtts, a.rtt)
			wholes = append(wholes, a.whole)
		}
	}
	p := phase{goodput: float64(len(rtts)) / (to - from).Seconds(), low: math.MaxInt}
	p.p99 = time.Duration(sim.Percentile(rtts, 0.99))
	p.whole = time.Duration(sim.Percentile(wholes, 0.99))
	limits := h.limits[min(int64(from)/tick, int64(len(h.limits))):min(int64(to)/tick, int64(len(h.limits)))]
	for _, l := range limits {
		p.low, p.top = min(p.low, l), max(p.top, l)
		p.mean += float64(l) / float64(len(limits))
	}
	return p
}
