package breaker

// changes are the changes of state that nobody has been told of yet. One
// goroutine at a time delivers them, outside the lock and in order; whoever
// makes a change meanwhile, OnChange itself included, leaves it to that one.
type changes struct {
	queue []transition
	busy  bool
}

type transition struct {
	key      string
	from, to State
}

// unlock releases the lock and then tells OnChange what happened under it.
func (b *Breaker) unlock() {
	if b.news.busy || len(b.news.queue) == 0 {
		b.mu.Unlock()
		return
	}
	b.news.busy = true
	b.mu.Unlock()
	b.deliver()
}

func (b *Breaker) deliver() {
	done := false
	defer func() {
		// OnChange panicked or ended the goroutine: the next change goes on
		// with what is left.
		if !done {
			b.mu.Lock()
			b.news.busy = false
			b.mu.Unlock()
		}
	}()
	for {
		b.mu.Lock()
		if len(b.news.queue) == 0 {
			b.news.queue, b.news.busy, done = nil, false, true
			b.mu.Unlock()
			return
		}
		n := b.news.queue[0]
		b.news.queue = b.news.queue[1:]
		listeners := b.listeners // only ever appended to
		b.mu.Unlock()
		if b.OnChange != nil {
			b.OnChange(n.key, n.from, n.to)
		}
		for _, told := range listeners {
			told(n.key, n.from, n.to)
		}
	}
}
