package breaker

import (
	"time"
)

// A table finds circuits by key, and knows which to forget first.
type table struct {
	byKey              map[string]*circuit
	idle               list // closed, roughly by when they were last used
	marked             list // closed, and had failures counted when last looked at
	held               list // open and half-open, by when they became so
	evicted, unguarded uint64
}

const (
	recentKeys = 64 // a power of two
	look       = 32 // circuits passed over to make room for one
)

// recall finds a circuit without the lock if its key was used lately.
func (b *Breaker) recall(key string) *circuit {
	if c := b.last.Load(); c != nil && c.key == key {
		return c
	}
	if c := b.recent[slot(key)].Load(); c != nil && c.key == key {
		return c
	}
	return nil
}

// slot is a cheap hash: the length, eight bytes after "https://" and the eight
// in the middle. Keys that meet in a slot take the lock, no more.
func slot(key string) int {
	n := len(key)
	if n < 16 {
		return n
	}
	h := uint64(n) + word(key[8:]) + 3*word(key[n/2:])
	return int(h * 0x9e3779b97f4a7c15 >> 58) // recentKeys is 1<<6
}

func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (b *Breaker) remember(c *circuit) {
	if s := &b.recent[slot(c.key)]; s.Load() != c {
		s.Store(c)
	}
	b.last.Store(c)
}

// find finds a circuit, nil if there is none.
func (b *Breaker) find(key string) *circuit {
	if c := b.recall(key); c != nil && c.era.Load() != nil {
		return c
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.keys.byKey[key]
	if c != nil {
		b.remember(c)
	}
	return c
}

// add makes a closed circuit, nil if there is no room.
func (b *Breaker) add(key string, now time.Time) *circuit {
	k := &b.keys
	if most := b.maxKeys(); most > 0 && len(k.byKey) >= most && !b.makeRoom(now) {
		k.unguarded++
		return nil
	}
	if k.byKey == nil {
		k.byKey = make(map[string]*circuit)
	}
	c := &circuit{key: key}
	k.byKey[key] = c
	b.enterEra(c, &era{state: Closed})
	return c
}

// makeRoom forgets one circuit: the longest idle of those that equal a new one,
// else of those with failures counted, else one that is open and that nobody
// came to probe for long. It passes over so many at most that cannot go; they
// are at the back then, so the next call goes on behind them.
func (b *Breaker) makeRoom(now time.Time) bool {
	k, t := &b.keys, b.since(now)
	var second *circuit
	for seen := 0; seen < min(look, k.idle.n); {
		c := k.idle.front
		e := c.era.Load()
		if !e.spotless(t) {
			k.marked.add(c)
			continue
		}
		if !e.hasCalls() {
			if !c.used.Swap(false) && b.forget(c) {
				return true
			}
			second = first(second, c)
		}
		k.idle.add(c) // to the back
		seen++
	}
	if b.forget(second) {
		return true
	}
	second = nil
	for range min(look/4, k.marked.n) {
		c := k.marked.front
		e := c.era.Load()
		if !e.spotless(t) {
			if !e.hasCalls() {
				second = first(second, c)
			}
			k.marked.add(c)
			continue
		}
		k.idle.add(c)
		if !e.hasCalls() && b.forget(c) {
			return true
		}
	}
	if b.forget(second) {
		return true
	}
	for range min(look, k.held.n) {
		c := k.held.front
		if b.abandoned(c, t) && b.forget(c) {
			return true
		}
		k.held.add(c)
	}
	return false
}

func first(a, b *circuit) *circuit {
	if a != nil {
		return a
	}
	return b
}

// spotless reports whether a closed era has no failure at t that still counts.
// Successes are given up: they weigh only against failures of the same window.
func (e *era) spotless(t int64) bool {
	if e.run.Load() != 0 || e.told > t {
		return false
	}
	if e.window == nil {
		return true
	}
	bad, _ := e.window.count()
	if bad > 0 { // perhaps long ago
		e.tick(t)
		bad, _ = e.window.count()
	}
	return bad == 0
}

// abandoned reports whether a probe could have left for so long that nobody
// seems to want this key any more.
func (b *Breaker) abandoned(c *circuit, t int64) bool {
	return t-int64(b.maxOpenFor()) >= c.era.Load().until
}

// forget removes a circuit unless a call gets in just now: admit counts the call
// in and then looks at the era again, this takes the era away and then looks at
// the count again, so at least one of the two sees the other.
func (b *Breaker) forget(c *circuit) bool {
	if c == nil {
		return false
	}
	e := c.era.Swap(nil)
	if e.hasCalls() {
		c.era.Store(e)
		return false
	}
	c.in.remove(c)
	delete(b.keys.byKey, c.key)
	b.recent[slot(c.key)].CompareAndSwap(c, nil)
	b.last.CompareAndSwap(c, nil)
	b.keys.evicted++
	return true
}

// A list is a ring of circuits through their own links; each is in one list.
type list struct {
	front *circuit
	n     int
}

// add puts c last, taking it from where it is.
func (l *list) add(c *circuit) {
	if c.in != nil {
		c.in.remove(c)
	}
	c.in = l
	l.n++
	if l.front == nil {
		l.front, c.next, c.prev = c, c, c
		return
	}
	c.next, c.prev = l.front, l.front.prev
	c.prev.next, c.next.prev = c, c
}

func (l *list) remove(c *circuit) {
	if l.n--; l.n == 0 {
		l.front = nil
	} else {
		c.prev.next, c.next.prev = c.next, c.prev
		if l.front == c {
			l.front = c.next
		}
	}
	c.in, c.next, c.prev = nil, nil, nil
}
