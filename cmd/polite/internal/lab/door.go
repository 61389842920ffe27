package lab

import (
	"math"

	"github.com/politehttp/polite/internal/admission"
	"github.com/politehttp/polite/internal/sim"
)

// gated is the engine of shed.Gate at a server's door.
type gated struct {
	sim  *sim.Sim
	gate *admission.Gate
	due  int64 // when a timer is set for

	leaves func(r *request) // one's work is done, and the next not yet let in; may be nil
}

func newGated(s *sim.Sim, c admission.Config) *gated {
	return &gated{sim: s, gate: admission.New(c, s.Rand.Uint64()), due: math.MaxInt64}
}

func (g *gated) arrive(r *request) {
	r.ticket = admission.Ticket{Tenant: r.tenant, Known: r.known, Deadline: r.expires, Value: r}
	switch g.gate.Arrive(&r.ticket, g.sim.Now()) {
	case admission.Admitted:
		r.begin()
	case admission.Queued:
	default:
		r.refuse()
	}
	g.settle()
}

func (g *gated) leave(r *request) {
	if g.leaves != nil {
		g.leaves(r)
	}
	g.gate.Leave(&r.ticket, g.sim.Now(), true)
	g.settle()
}

// settle tells all that are to be told, and sets the timer for the next.
func (g *gated) settle() {
	for {
		t, v := g.gate.Next(g.sim.Now())
		if t == nil {
			break
		}
		if r := t.Value.(*request); v == admission.Admitted {
			r.begin()
		} else {
			r.refuse()
		}
	}
	due := g.gate.Due()
	if due >= g.due {
		return
	}
	g.due = due
	g.sim.At(due, func() {
		if g.due == due {
			g.due = math.MaxInt64
			g.settle()
		}
	})
}
