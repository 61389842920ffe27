package shed

import "maps"

// Stats is what a Gate does at one instant, and has done.
type Stats struct {
	Limit     int // -1: none
	InFlight  int // requests that hold a slot
	Waiting   int // requests in the queue, and producers in Wait
	LongLived int // answers that last, which hold no slot

	Admitted int64            // since the Gate was made
	Refused  map[Reason]int64 // likewise; the caller's own copy
}

// counts are under gate.mu.
type counts struct {
	admitted int64
	refused  map[Reason]int64
}

// Stats returns a copy, taken at one instant.
func (g *Gate) Stats() Stats {
	in := g.compiled()
	in.mu.Lock()
	defer in.mu.Unlock()
	s := Stats{
		Limit:     in.engine.Limit(),
		InFlight:  in.engine.InFlight(),
		Waiting:   in.engine.Waiting(),
		LongLived: int(in.streams.Load()),
		Admitted:  in.count.admitted,
		Refused:   maps.Clone(in.count.refused),
	}
	if s.Limit == unlimited {
		s.Limit = -1
	}
	return s
}

// SetLimit changes the limit. Zero is zero: nobody is let in from now on, also
// when nothing is being done. Negative: as the fields say, Limit or Adaptive.
// Who is inside stays; when the limit falls, nobody enters until enough have
// left, and when it rises, who waits enters at once. An adaptive limit stands
// still while another is set.
func (g *Gate) SetLimit(n int) {
	in := g.compiled()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.pinned = n >= 0
	if n < 0 {
		n = in.ownLimit()
	}
	in.setLimit(n)
}

// setLimit changes the engine's. The lock is held.
func (g *gate) setLimit(n int) {
	g.engine.SetLimit(min(n, unlimited))
	g.settle(g.now())
}
