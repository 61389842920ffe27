package admission

// line is who waits in one class: flows that take turns (deficit round robin,
// Shreedhar and Varghese 1996, where every request costs 1, so a turn is as many
// requests as the flow's weight), ordered by length for the day that the queue
// is full. The crowd, who have one share together, are a line within one flow.
type line struct {
	order   Order
	of      *flow // the crowd's flow, whose line this is; nil: a class
	n       int
	weight  int // of all flows
	flows   map[uint64]*flow
	turn    *flow   // in a ring, the first at the front of the round
	longest []*flow // a heap: the one to lose a ticket first; without the patient
	spare   *flow   // ended flows, to be used again
}

// open is the flow with the key, begun at the end of the round if there is none.
func (l *line) open(key uint64, weight int) *flow {
	f := l.flows[key]
	if f != nil {
		l.weight += weight - f.weight
		f.weight = weight
		return f
	}
	if f = l.spare; f != nil {
		l.spare = f.next
	} else {
		f = new(flow)
	}
	*f = flow{line: l, key: key, weight: weight, at: -1}
	if l.flows == nil {
		l.flows = map[uint64]*flow{}
	}
	l.flows[key] = f
	l.weight += weight
	if l.turn == nil {
		f.next, f.prev = f, f
		l.turn = f
		return f
	}
	f.next, f.prev = l.turn, l.turn.prev
	f.prev.next, f.next.prev = f, f
	return f
}

// end forgets a flow in which nobody waits.
func (l *line) end(f *flow) {
	delete(l.flows, f.key)
	l.weight -= f.weight
	l.unheap(f)
	if f.next == f {
		l.turn = nil
	} else {
		f.prev.next, f.next.prev = f.next, f.prev
		if l.turn == f {
			l.turn = f.next
		}
	}
	*f = flow{next: l.spare}
	l.spare = f
}

// pop takes out who is served next. Somebody waits.
func (l *line) pop() *Ticket {
	f := l.turn
	if f.credit == 0 {
		f.credit = f.weight
	}
	f.credit--
	if f.credit == 0 {
		l.turn = f.next
	}
	if f.crowd != nil {
		return f.crowd.pop()
	}
	t := f.first(l.order)
	f.remove(t)
	return t
}

// ahead is how many are served before one that joins the flow with the key
// behind mine others, if nobody came later: the flow takes turns with all others.
func (l *line) ahead(key uint64, weight, mine int) int {
	all := l.weight
	if f := l.flows[key]; f != nil {
		weight = f.weight
	} else {
		all += weight
	}
	rounds := mine/weight + 1
	return min(l.n, rounds*all-1)
}

// behind is how many in the flow with the key are served before one that joins.
func (l *line) behind(key uint64) int {
	if f := l.flows[key]; f != nil && (l.order == Wine || f.patient) {
		return f.n
	}
	return 0
}

// fix puts a flow where its length belongs in the heap.
func (l *line) fix(f *flow) {
	if f.patient {
		return
	}
	if f.at < 0 {
		f.at = len(l.longest)
		l.longest = append(l.longest, f)
	}
	l.down(l.up(f.at))
}

func (l *line) unheap(f *flow) {
	i := f.at
	if i < 0 {
		return
	}
	end := len(l.longest) - 1
	l.swap(i, end)
	l.longest[end] = nil
	l.longest = l.longest[:end]
	if i < end {
		l.down(l.up(i))
	}
}

func (l *line) up(i int) int {
	for i > 0 && l.longest[i].loses(l.longest[(i-1)/2], l.order) {
		l.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (l *line) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(l.longest) {
			return
		}
		if child+1 < len(l.longest) && l.longest[child+1].loses(l.longest[child], l.order) {
			child++
		}
		if !l.longest[child].loses(l.longest[i], l.order) {
			return
		}
		l.swap(i, child)
		i = child
	}
}

func (l *line) swap(i, j int) {
	h := l.longest
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
