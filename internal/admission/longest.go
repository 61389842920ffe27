package admission

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
	f.at = -1
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
