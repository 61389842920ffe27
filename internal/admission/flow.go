package admission

// flow is one tenant's queue within a line. As many exist as somebody waits in,
// and a bounded number beside them, so the queue's bound is the bound of flows.
type flow struct {
	line   *line
	key    uint64
	weight int
	tag    int64  // when its turn is, by the line's clock
	since  uint64 // among those with the same tag, the first is first
	n      int    // how many wait

	// Who waits: in a list, or, for the crowd, in flows of their own.
	oldest, newest *Ticket
	crowd          *line

	patient    bool // producers: oldest first, never pushed out
	early      bool // counted in line.early
	next, prev *flow
	at         int // in line.longest; -1: not in it
	turn       int // in line.turns; -1: it rests
}

// cost is by how much a request moves the tag on.
func (f *flow) cost() int64 { return whole / int64(f.weight) }

// ring is flows in a circle.
type ring struct {
	front *flow
	n     int
}

func (r *ring) add(f *flow) {
	r.n++
	if r.front == nil {
		f.next, f.prev = f, f
		r.front = f
		return
	}
	f.next, f.prev = r.front, r.front.prev
	f.prev.next, f.next.prev = f, f
}

func (r *ring) remove(f *flow) {
	r.n--
	if r.n == 0 {
		r.front = nil
		return
	}
	f.prev.next, f.next.prev = f.next, f.prev
	if r.front == f {
		r.front = f.next
	}
}

// push puts the ticket at the young end.
func (f *flow) push(t *Ticket) {
	t.flow = f
	t.older, t.newer = f.newest, nil
	if f.newest != nil {
		f.newest.newer = t
	} else {
		f.oldest = t
	}
	f.newest = t
	f.grew(1)
}

// remove takes the ticket out, wherever it is.
func (f *flow) remove(t *Ticket) {
	if t.older != nil {
		t.older.newer = t.newer
	} else {
		f.oldest = t.newer
	}
	if t.newer != nil {
		t.newer.older = t.older
	} else {
		f.newest = t.older
	}
	t.flow, t.older, t.newer = nil, nil, nil
	f.grew(-1)
}

// grew keeps the counts and the order by length, here and in what this flow is
// a part of.
func (f *flow) grew(by int) {
	l := f.line
	if f.turn < 0 {
		l.woke(f)
	}
	f.n += by
	l.n += by
	if f.n == 0 {
		l.rests(f)
	} else {
		l.fix(f)
	}
	if l.of != nil {
		l.of.grew(by)
	}
}

// first is who is served next in this flow, and last who is dropped first.
func (f *flow) first(order Order) *Ticket {
	if order == Wine || f.patient {
		return f.oldest
	}
	return f.newest
}

func (f *flow) last(order Order) *Ticket {
	if f.crowd != nil {
		return f.crowd.longest[0].last(order)
	}
	if order == Wine {
		return f.newest
	}
	return f.oldest
}

// loses reports whether f is to lose a ticket before other: it has more waiting
// for its weight; among equals, whose ticket is the worse by the order.
func (f *flow) loses(other *flow, order Order) bool {
	mine, theirs := f.n*other.weight, other.n*f.weight
	if mine != theirs {
		return mine > theirs
	}
	if order == Wine {
		return f.last(order).number > other.last(order).number
	}
	return f.last(order).number < other.last(order).number
}
