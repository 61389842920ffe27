package pacer

import "time"

// expected is those of a queue who wait for other lines too, by when they are
// expected to leave: a treap, so that a newcomer need not look at each of
// them. The order is by that instant, then by arrival.
type expected struct{ root *place }

// node is a place in the tree.
type node struct {
	sooner, later *place
	units         int64  // of the place and all below it
	heap          uint64 // random; none below it has more
}

// add adds p, whose heap is random.
func (e *expected) add(p *place, heap uint64) {
	p.node = node{heap: heap}
	sooner, later := p.split(e.root)
	e.root = merge(merge(sooner, p.sum()), later)
}

func (e *expected) remove(p *place) { e.root = p.cut(e.root) }

// all is the units of all.
func (e *expected) all() int64 {
	if e.root == nil {
		return 0
	}
	return e.root.node.units
}

// by is the units of those who leave until an instant.
func (e *expected) by(at time.Time) (units int64) {
	for p := e.root; p != nil; {
		if p.waiter.eta.After(at) {
			p = p.node.sooner
			continue
		}
		units = later(units, p.n)
		if s := p.node.sooner; s != nil {
			units = later(units, s.node.units)
		}
		p = p.node.later
	}
	return units
}

// before is the order.
func (p *place) before(q *place) bool {
	if c := p.waiter.eta.Compare(q.waiter.eta); c != 0 {
		return c < 0
	}
	return p.waiter.arrival < q.waiter.arrival
}

// sum counts the units below p anew.
func (p *place) sum() *place {
	p.node.units = p.n
	for _, q := range [...]*place{p.node.sooner, p.node.later} {
		if q != nil {
			p.node.units = later(p.node.units, q.node.units)
		}
	}
	return p
}

// split parts a tree into what is before p and what is not.
func (p *place) split(root *place) (before, after *place) {
	if root == nil {
		return nil, nil
	}
	if root.before(p) {
		root.node.later, after = p.split(root.node.later)
		return root.sum(), after
	}
	before, root.node.sooner = p.split(root.node.sooner)
	return before, root.sum()
}

// merge joins two trees, all of a being before all of b.
func merge(a, b *place) *place {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.node.heap > b.node.heap:
		a.node.later = merge(a.node.later, b)
		return a.sum()
	}
	b.node.sooner = merge(a, b.node.sooner)
	return b.sum()
}

// cut takes p out of a tree.
func (p *place) cut(root *place) *place {
	switch {
	case root == p:
		return merge(p.node.sooner, p.node.later)
	case p.before(root):
		root.node.sooner = p.cut(root.node.sooner)
	default:
		root.node.later = p.cut(root.node.later)
	}
	return root.sum()
}
