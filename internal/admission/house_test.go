package admission

import (
	"math"
	"time"

	"github.com/politehttp/polite/internal/sim"
)

// house is a server in virtual time: a Gate, and work behind it.
type house struct {
	*sim.Sim
	gate    *Gate
	service func() int64
	served  func(t *Ticket) // it has left
	refused func(t *Ticket, v Verdict)
	alarm   int64
	stalled int64 // until then nothing is finished
}

func newHouse(c Config, seed uint64, service func(s *sim.Sim) int64) *house {
	h := &house{Sim: sim.New(seed), gate: New(c, seed), alarm: math.MaxInt64}
	h.service = func() int64 { return service(h.Sim) }
	h.served, h.refused = func(*Ticket) {}, func(*Ticket, Verdict) {}
	return h
}

func exponential(mean time.Duration) func(*sim.Sim) int64 {
	return func(s *sim.Sim) int64 { return s.Exp(mean) }
}

func (h *house) arrive(t *Ticket) {
	switch v := h.gate.Arrive(t, h.Now()); v {
	case Admitted:
		h.enter(t)
	case Queued:
	default:
		h.refused(t, v)
	}
	h.drain()
}

func (h *house) enter(t *Ticket) {
	end := max(h.Now(), h.stalled) + h.service()
	h.At(end, func() {
		h.gate.Leave(t, h.Now(), true)
		h.served(t)
		h.drain()
	})
}

func (h *house) drain() {
	for {
		t, v := h.gate.Next(h.Now())
		if t == nil {
			break
		}
		if v == Admitted {
			h.enter(t)
		} else {
			h.refused(t, v)
		}
	}
	if due := h.gate.Due(); due < h.alarm {
		h.alarm = due
		h.At(due, func() {
			h.alarm = math.MaxInt64
			h.drain()
		})
	}
}
