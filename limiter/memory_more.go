package limiter

import (
	"time"

	"github.com/politehttp/polite/internal/rule"
)

// untilMore is how long until more than left units would be admitted, which no
// decision on a sliding window tells; 0 if that is all there ever are, or they
// are there. It charges nothing.
func (m *Memory) untilMore(charge *Charge, left int64) time.Duration {
	c := m.start()
	var s seat
	steady := s.enter(c, charge)
	defer s.shard.mu.Unlock()
	if !s.find() {
		s.share(c, c.times(steady))
		if !s.find() {
			return 0
		}
	}
	var d Decision
	s.ask(&d, left+1)
	if d.Never {
		return 0
	}
	return d.RetryAfter
}

// delay is how long a LeakyQueue would keep a charge of cost before it leaves, if
// there were place for it; 0 if there never is. It charges nothing.
func (m *Memory) delay(charge *Charge, cost int64) time.Duration {
	c := m.start()
	var s seat
	steady := s.enter(c, charge)
	defer s.shard.mu.Unlock()
	if !s.find() {
		own := s
		if s.share(c, c.times(steady)); !s.find() {
			s = own
		}
	}
	var state rule.State
	if s.slot >= 0 {
		state = s.shard.slots[s.slot].state
	}
	return time.Duration(s.limit.rule.Delay(state, s.at, cost))
}

// peek says what Take would decide, and charges nothing. The decisions on each
// charge are put into each.
func (m *Memory) peek(each []Decision, charges []Charge) (d Decision) {
	d.join(each, m.start().decide(each, charges, true))
	if len(charges) > 1 {
		d.Each = each
	}
	return d
}
