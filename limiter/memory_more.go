package limiter

import (
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// untilMore is how long until more than left units would be admitted, which no
// decision on a sliding window tells; 0 if that is all there ever are, or they
// are there. It charges nothing. overflow says where the decision was made.
func (m *Memory) untilMore(charge *Charge, left int64, overflow bool) time.Duration {
	c := m.start()
	var s seat
	steady := s.enter(c, charge)
	defer s.shard.mu.Unlock()
	if overflow {
		s.share(c, c.times(steady))
	}
	if !s.find() {
		return 0
	}
	var d Decision
	s.ask(&d, left+1)
	if d.Never {
		return 0
	}
	return d.RetryAfter
}

// peek says what Take would decide, and charges nothing. The decisions on each
// charge are put into each. Delay is how long a LeakyQueue would keep the request
// if there were place for it.
func (m *Memory) peek(each []Decision, charges []Charge) (d Decision) {
	d.join(each, m.start().decide(each, charges, true))
	if len(charges) > 1 {
		d.Each = each
	}
	return d
}

// delay puts into d how long a LeakyQueue would keep the cost that was asked for.
func (s *seat) delay(d *Decision) {
	if r := s.limit.rule; r.Kind() == rule.LeakyQueue && !s.packed {
		d.Delay = time.Duration(r.Delay(s.state, s.at, s.cost))
	}
}
