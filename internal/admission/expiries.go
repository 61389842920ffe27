package admission

// expiries is a heap of the waiting tickets that expire, the next one first. A
// short deadline may come late, so the order of arrival would not do.
type expiries []*Ticket

func (h *expiries) add(t *Ticket) {
	t.at = int32(len(*h))
	*h = append(*h, t)
	h.up(int(t.at))
}

func (h *expiries) remove(t *Ticket) {
	i, end := int(t.at), len(*h)-1
	if i < 0 {
		return
	}
	h.swap(i, end)
	(*h)[end] = nil
	*h = (*h)[:end]
	if i < end {
		h.down(h.up(i))
	}
	t.at = -1
}

func (h expiries) up(i int) int {
	for i > 0 && h[i].due < h[(i-1)/2].due {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (h expiries) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].due < h[child].due {
			child++
		}
		if h[child].due >= h[i].due {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h expiries) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = int32(i), int32(j)
}
