package admission

// flow is one tenant's queue within a line. A flow exists only while somebody
// waits in it, so the queue's bound is the bound of flows too.
type flow struct {
	line   *line
	key    uint64
	weight int
	credit int // what it may still take in this round
	n      int // how many wait

	// Who waits: in a list, or, for the crowd, in flows of their own.
	oldest, newest *Ticket
	crowd          *line

	patient    bool // producers: oldest first, never pushed out
	next, prev *flow
	at         int // in line.longest; -1: not in it
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
func (f *flow) grew(n int) {
	l := f.line
	f.n += n
	l.n += n
	if f.n == 0 {
		l.end(f)
	} else {
		l.fix(f)
	}
	if l.of != nil {
		l.of.grew(n)
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
