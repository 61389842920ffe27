package admission

// line is who waits in one class: flows that take turns (deficit round robin,
// Shreedhar and Varghese 1996, where every request costs 1, so a turn is as many
// requests as the flow's weight), and by length for when the queue is full.
//
// Turns that a flow does not use are saved, up to advance of them, and used
// before the round goes on: who asks seldom does not wait for who asks always,
// and in the long run has no more than his share for it. A new flow has all of
// them, so one that rests, nobody waiting in it, is forgotten when it has them
// all again. FQ-CoDel (RFC 8290) does the same with one turn.
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
	early   ring // who has saved turns and somebody waiting
	round   ring // all others, the one whose turn it is at the front
	resting int
	longest []*flow // a heap: the one to lose a ticket first; without the patient
	spare   *flow   // ended flows, to be used again
}

const (
	advance     = 4
	mostResting = 512 // beyond it flows are forgotten at once, and new ones have saved nothing
)

// open is the flow with the key, a new one if there is none.
func (l *line) open(key uint64, weight int) *flow {
	f := l.flows[key]
	if f != nil {
		if f.n > 0 {
			l.weight += weight - f.weight
		}
		f.weight = weight
		return f
	}
	if f = l.spare; f != nil {
		l.spare = f.next
	} else {
		f = new(flow)
	}
	*f = flow{line: l, key: key, weight: weight, at: -1, resting: true}
	if l.of == nil && l.resting < mostResting {
		f.credit = advance * weight
	}
	if l.flows == nil {
		l.flows = map[uint64]*flow{}
	}
	l.flows[key] = f
	l.round.add(f)
	l.resting++
	return f
}

// woke is told that somebody waits in a flow again, and rests that nobody does.
func (l *line) woke(f *flow) {
	f.resting = false
	l.resting--
	l.weight += f.weight
	if f.credit > 0 {
		l.round.remove(f)
		f.early = true
		l.early.add(f)
	}
}

func (l *line) rests(f *flow) {
	l.unheap(f)
	f.resting = true
	l.resting++
	l.weight -= f.weight
	if f.early {
		l.early.remove(f)
		f.early = false
		l.round.add(f)
	}
	if l.of != nil || l.resting > mostResting {
		l.forget(f)
	}
	if l.n == 0 { // the round is over
		for l.round.front != nil {
			l.forget(l.round.front)
		}
	}
}

func (l *line) forget(f *flow) {
	l.resting--
	l.round.remove(f)
	delete(l.flows, f.key)
	*f = flow{next: l.spare}
	l.spare = f
}

// pop takes out who is served next. Somebody waits.
func (l *line) pop() *Ticket {
	f := l.next()
	if f.crowd != nil {
		return f.crowd.pop()
	}
	t := f.first(l.order)
	f.remove(t)
	return t
}

// next is the flow whose turn it is. It has used the turn and the next one comes.
func (l *line) next() *flow {
	if f := l.early.front; f != nil {
		f.credit--
		if f.credit == 0 {
			l.early.remove(f)
			f.early = false
			l.round.add(f)
		} else if f.credit%f.weight == 0 { // one turn of those saved
			l.early.front = f.next
		}
		return f
	}
	for {
		f := l.round.front
		if f.resting {
			f.credit += f.weight
			if f.credit >= advance*f.weight {
				l.forget(f)
			} else {
				l.round.front = f.next
			}
			continue
		}
		if f.credit == 0 {
			f.credit = f.weight
		}
		f.credit--
		if f.credit == 0 {
			l.round.front = f.next
		}
		return f
	}
}

// ahead is how many are served before one that joins the flow with the key
// behind mine others, if nobody came later: the flow takes turns with all others.
func (l *line) ahead(key uint64, mine int) int {
	f := l.flows[key]
	if f == nil && l.of == nil {
		return l.early.n
	}
	all, weight := l.weight, 1
	if f != nil {
		weight = f.weight
	}
	if f == nil || f.resting {
		all += weight
	}
	return min(l.n, (mine/weight+1)*all-1)
}

// behind is how many in the flow with the key are served before one that joins.
func (l *line) behind(key uint64) int {
	if f := l.flows[key]; f != nil && (l.order == Wine || f.patient) {
		return f.n
	}
	return 0
}
