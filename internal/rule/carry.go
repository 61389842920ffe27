package rule

import "math/bits"

// Carry turns what was remembered of a key under the rule old into what is
// remembered of it under r: units in use stay in use, as far as they fit. It
// reads s if old is not Long and h, which may be nil, if it is, and h must not
// be used afterwards. It returns a State if r is not Long and a History if it is.
func (r *Rule) Carry(old *Rule, s State, h *History, now int64) (State, *History) {
	switch {
	case old.Long() && r.Long():
		return State{}, r.carryHistory(old, h, now)
	case old.Long():
		return r.start(old.Used(State{}, h, now), now), nil
	case r.Long():
		h = &History{}
		r.Charge(h, now, min(old.Used(s, nil, now), r.quota))
		return State{}, h
	case r.Reads(old):
		return s, nil
	case r.kind <= LeakyQueue && old.kind <= LeakyQueue:
		return r.carryBucket(old, s, now), nil
	}
	return r.start(old.Used(s, nil, now), now), nil
}

// Used returns the units in use, a part of one counting as one. It reads s or h
// as Carry does.
func (r *Rule) Used(s State, h *History, now int64) int64 {
	if r.Long() {
		if h == nil {
			return 0
		}
		r.settle(h, now)
		return h.total
	}
	_, v := r.Take(s, now, 0)
	return r.quota - v.Remaining
}

// start returns the state of a new key that was just charged units.
func (r *Rule) start(units, now int64) State {
	s, _ := r.Take(State{}, now, min(units, r.quota))
	return s
}

// carryBucket keeps parts of a unit, rounded up to what the new rate can tell.
func (r *Rule) carryBucket(old *Rule, s State, now int64) State {
	s, _ = old.takeBucket(s, now, 0) // no further ahead than full
	if s.A <= now {
		return State{}
	}
	b := &r.bucket
	level := old.bucket.count*(s.A-now) - s.B
	most := uint64(r.quota) * b.unit.d
	if b.steady && r.kind == LeakyQueue && old.kind == LeakyQueue {
		most = maxSpan // those who wait were told when to leave: more may wait than capacity
	}
	q := most
	if hi, lo := bits.Mul64(uint64(level), b.unit.d); hi < old.bucket.unit.d {
		whole, rest := bits.Div64(hi, lo, old.bucket.unit.d)
		if rest > 0 {
			whole++
		}
		q = min(whole, most)
	}
	level = int64(q)
	ahead := b.leak.ceil(level)
	return State{now + ahead, ahead*b.count - level}
}

// carryHistory takes each unit to have come as late as r can tell.
func (r *Rule) carryHistory(old *Rule, h *History, now int64) *History {
	n := &History{}
	if h == nil {
		return n
	}
	old.settle(h, now)
	for _, e := range h.entries[h.head:] {
		r.Charge(n, min(e.at, now), e.units)
	}
	return n
}

// Trim forgets the oldest units beyond the quota, which decide nothing beside so
// many that are younger, so that a History takes no more room than its rule says.
func (r *Rule) Trim(h *History) {
	for h.total > r.quota {
		e := &h.entries[h.head]
		gone := min(e.units, h.total-r.quota)
		e.units -= gone
		h.total -= gone
		if e.units == 0 {
			h.head++
		}
	}
	h.entries = append([]entry(nil), h.entries[h.head:]...)
	h.head = 0
}

// Reads reports whether r understands what o remembers as it is. Between such
// rules only the quota of a State differs, and units may be in use beyond it.
func (r *Rule) Reads(o *Rule) bool {
	switch {
	case r.kind <= LeakyQueue && o.kind <= LeakyQueue:
		return r.bucket.count == o.bucket.count && r.bucket.unit == o.bucket.unit
	case r.Long() && r.quota != o.quota: // which bounds the memory of a History
		return false
	}
	return r.kind == o.kind && r.align == o.align && r.window == o.window && r.cells == o.cells && r.calendar.same(o.calendar)
}

func (c *calendar) same(o *calendar) bool {
	if c == nil || o == nil {
		return c == o
	}
	// A zone that is loaded twice is two pointers; two fixed zones may share a name.
	return c.unit == o.unit && c.zone.String() == o.zone.String() && c.find(0) == o.find(0)
}
