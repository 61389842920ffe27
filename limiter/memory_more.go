package limiter

import "time"

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

// delay is how long a LeakyQueue would keep a charge before it leaves; 0 if it
// would not admit it. It charges nothing.
func (m *Memory) delay(charge *Charge) time.Duration {
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
	var d Decision
	s.ask(&d, s.cost)
	return d.Delay
}
