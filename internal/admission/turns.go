package admission

// turns is a heap of the flows in which somebody waits, whose turn is next first.
type turns []*flow

func (h *turns) add(f *flow) {
	f.turn = len(*h)
	*h = append(*h, f)
	h.up(f.turn)
}

func (h *turns) remove(f *flow) {
	i, end := f.turn, len(*h)-1
	h.swap(i, end)
	(*h)[end] = nil
	*h = (*h)[:end]
	if i < end {
		h.down(h.up(i))
	}
	f.turn = -1
}

// fix puts a flow whose tag was changed where it belongs.
func (h turns) fix(f *flow) { h.down(h.up(f.turn)) }

// before reports whose turn is first. Tags may wrap around; the differences are
// small.
func (h turns) before(i, j int) bool {
	if d := h[i].tag - h[j].tag; d != 0 {
		return d < 0
	}
	return int64(h[i].since-h[j].since) < 0
}

func (h turns) up(i int) int {
	for i > 0 && h.before(i, (i-1)/2) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (h turns) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h.before(child+1, child) {
			child++
		}
		if !h.before(child, i) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h turns) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].turn, h[j].turn = i, j
}
