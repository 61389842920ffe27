package admission

// line is who waits in one class: flows that take turns by weight, and by length
// for when the queue is full.
//
// The turns are those of start-time fair queueing (Goyal, Vin and Cheng 1996),
// where every request costs 1. Each flow has a tag, on a clock that stands at the
// tag served last; the least is next, and moves on by 1/weight. Of equal weights
// that is round robin, whatever they are. Of others the heavier comes as much more
// often in between, and not with all its requests in a row, as in deficit round
// robin: who has to wait for a thousand others has waited too long.
//
// Turns that a flow does not use are saved, up to advance of them, as a tag that
// is behind the clock: who asks seldom does not wait for who asks always, and in
// the long run has no more than its share for it. A new flow has all of them, so
// one that rests, nobody waiting in it, is forgotten when it has them all again.
// FQ-CoDel (RFC 8290) does the same with one turn.
//
// The crowd, who have one share together, are a line within one flow. There may
// be any number of them, so nothing is saved there. A name is known only while
// it waits, and so each has a flow of its own and none is hashed together with
// another: the bound of the queue is the bound of the memory.
type line struct {
	order   Order
	of      *flow // the crowd's flow, whose line this is; nil: a class
	n       int   // tickets that wait
	weight  int   // of all flows in which somebody waits
	flows   map[uint64]*flow
	turns   turns
	clock   int64
	given   uint64 // tags
	early   int    // of turns: those who are behind the clock
	resting ring
	longest []*flow // a heap: the one to lose a ticket first; without the patient
	spare   *flow   // ended flows, to be used again
}

const (
	advance     = 4
	mostResting = 512     // beyond it flows are forgotten at once, and new ones have saved nothing
	whole       = 1 << 24 // what a request costs a flow of weight 1
)

// open is the flow with the key, a new one if there is none.
func (l *line) open(key uint64, weight int) *flow {
	f := l.flows[key]
	if f != nil {
		if f.weight != weight {
			l.reweigh(f, weight)
		}
		return f
	}
	if f = l.spare; f != nil {
		l.spare = f.next
	} else {
		f = new(flow)
	}
	*f = flow{line: l, key: key, weight: weight, at: -1, turn: -1}
	f.tag = l.clock + f.cost()
	if l.of == nil && l.resting.n < mostResting {
		f.tag -= advance * f.cost()
	}
	if l.flows == nil {
		l.flows = map[uint64]*flow{}
	}
	l.flows[key] = f
	l.resting.add(f)
	return f
}

// reweigh changes a flow's weight: it has saved as many turns, of the new kind.
func (l *line) reweigh(f *flow, weight int) {
	f.tag = l.clock + (f.tag-l.clock)*int64(f.weight)/int64(weight)
	if f.turn >= 0 {
		l.weight += weight - f.weight
		l.turns.fix(f)
	}
	f.weight = weight
	if f.at >= 0 {
		l.fix(f)
	}
}

// woke is told that somebody waits in a flow again, and rests that nobody does.
func (l *line) woke(f *flow) {
	l.resting.remove(f)
	l.weight += f.weight
	if least := l.clock - (advance-1)*f.cost(); f.tag-least < 0 {
		f.tag = least
	}
	l.stamp(f)
	l.turns.add(f)
	if f.early = f.tag-l.clock <= 0; f.early {
		l.early++
	}
}

func (l *line) rests(f *flow) {
	l.unheap(f)
	l.turns.remove(f)
	l.notEarly(f)
	l.resting.add(f)
	l.weight -= f.weight
	if l.of != nil || l.resting.n > mostResting {
		l.forget(f)
	}
	if l.n == 0 { // there is nothing to share
		for l.resting.front != nil {
			l.forget(l.resting.front)
		}
	}
}

func (l *line) forget(f *flow) {
	l.resting.remove(f)
	delete(l.flows, f.key)
	*f = flow{next: l.spare}
	l.spare = f
}

// stamp has who was given the same tag before go before.
func (l *line) stamp(f *flow) {
	f.since = l.given
	l.given++
}

func (l *line) notEarly(f *flow) {
	if f.early {
		f.early = false
		l.early--
	}
}

// pop takes out who is served next. Somebody waits.
func (l *line) pop() *Ticket {
	f := l.turns[0]
	if f.tag-l.clock > 0 {
		l.clock = f.tag
	}
	f.tag += f.cost()
	l.stamp(f)
	l.turns.fix(f)
	if f.tag-l.clock > 0 {
		l.notEarly(f)
	}
	l.sweep()
	if f.crowd != nil {
		return f.crowd.pop()
	}
	t := f.first(l.order)
	f.remove(t)
	return t
}

// sweep forgets those at rest that have saved all they can, looking at two at a
// time.
func (l *line) sweep() {
	for range min(2, l.resting.n) {
		if f := l.resting.front; l.clock-f.tag >= (advance-1)*f.cost() {
			l.forget(f)
		} else {
			l.resting.front = f.next
		}
	}
}

// ahead is how many are served before one that joins the flow with the key
// behind mine others, if nobody came later: the flow takes turns with all others.
func (l *line) ahead(key uint64, mine int) int {
	f := l.flows[key]
	if f == nil && l.of == nil {
		return l.early
	}
	all, weight := l.weight, 1
	if f != nil {
		weight = f.weight
		if f.tag+int64(mine)*f.cost()-l.clock <= 0 {
			return min(l.n, (mine+1)*l.early)
		}
	}
	if f == nil || f.turn < 0 {
		all += weight
	}
	return min(l.n, ((mine+1)*all+weight-1)/weight-1)
}

// behind is how many in the flow with the key are served before one that joins.
func (l *line) behind(key uint64) int {
	if f := l.flows[key]; f != nil && (l.order == Wine || f.patient) {
		return f.n
	}
	return 0
}
