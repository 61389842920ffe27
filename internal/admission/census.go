package admission

import "math"

// census says which unknown tenants have a share of their own. Names cost who
// sends them nothing, so a share each would give everything to who invents the
// most. Room is for so many; when they are there, those idle for longest go
// first, and then the Space-Saving algorithm (Metwally, Agrawal and El Abbadi
// 2005) decides: a new name takes the place of the smallest and inherits its
// count, so who comes often stays however many come once. A name that came in
// that way has its share once it was seen heavy times itself.
//
// It counts only those who had to wait: as long as all are let in, there is
// nothing to share. It knows names by a seeded hash, 64 bits; what it keeps is
// about 80 bytes a name.
type census struct {
	room    int
	at      map[uint64]int32 // into names
	names   []name
	least   []int32 // a heap of names by count
	first   int32   // of names by when they were last seen; -1: none
	latest  int32
	renewed int64
}

type name struct {
	key          uint64
	count        uint32
	inherited    uint32
	seen         int64
	at           int32 // in least
	older, newer int32
	own          bool
}

const (
	heavy     = 8
	idleAfter = 10e9 // an entry not seen for so long may go, whatever its count
	halveTime = 10e9 // counts are halved as often, so that they are of late
)

// own counts the name and reports whether it has a share of its own.
func (c *census) own(key uint64, now int64) bool {
	if c.room <= 0 {
		return false
	}
	c.halve(now)
	i, known := c.at[key]
	if !known {
		i = c.enter(key, now)
	}
	e := &c.names[i]
	if e.count < math.MaxUint32 {
		e.count++
	}
	e.own = e.own || e.count-e.inherited >= heavy
	e.seen = now
	c.unlink(i)
	c.link(i)
	c.down(int(e.at))
	return e.own
}

// enter finds a place for the name.
func (c *census) enter(key uint64, now int64) int32 {
	if len(c.names) < c.room {
		if c.at == nil {
			c.at, c.first, c.latest = map[uint64]int32{}, -1, -1
		}
		i := int32(len(c.names))
		c.names = append(c.names, name{key: key, at: i, own: true})
		c.least = append(c.least, i)
		c.at[key] = i
		c.link(i)
		c.up(int(i))
		return i
	}
	if i := c.first; now-c.names[i].seen >= idleAfter {
		e := &c.names[i]
		c.rename(i, key)
		e.count, e.inherited, e.own = 0, 0, true
		c.up(int(e.at))
		return i
	}
	i := c.least[0]
	e := &c.names[i]
	c.rename(i, key)
	e.inherited, e.own = e.count, false
	return i
}

func (c *census) rename(i int32, key uint64) {
	delete(c.at, c.names[i].key)
	c.names[i].key = key
	c.at[key] = i
}

// halve forgets: it keeps the order, and what is left is mostly of late.
func (c *census) halve(now int64) {
	if now-c.renewed < halveTime {
		return
	}
	c.renewed = now
	for i := range c.names {
		e := &c.names[i]
		e.count -= e.count / 2
		e.inherited -= e.inherited / 2
	}
}

// link puts an entry at the late end, and unlink takes it out.
func (c *census) link(i int32) {
	e := &c.names[i]
	e.older, e.newer = c.latest, -1
	if c.latest >= 0 {
		c.names[c.latest].newer = i
	} else {
		c.first = i
	}
	c.latest = i
}

func (c *census) unlink(i int32) {
	e := &c.names[i]
	if e.older >= 0 {
		c.names[e.older].newer = e.newer
	} else {
		c.first = e.newer
	}
	if e.newer >= 0 {
		c.names[e.newer].older = e.older
	} else {
		c.latest = e.older
	}
}

func (c *census) less(i, j int) bool {
	return c.names[c.least[i]].count < c.names[c.least[j]].count
}

func (c *census) up(i int) {
	for i > 0 && c.less(i, (i-1)/2) {
		c.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (c *census) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(c.least) {
			return
		}
		if child+1 < len(c.least) && c.less(child+1, child) {
			child++
		}
		if !c.less(child, i) {
			return
		}
		c.swap(i, child)
		i = child
	}
}

func (c *census) swap(i, j int) {
	h := c.least
	h[i], h[j] = h[j], h[i]
	c.names[h[i]].at, c.names[h[j]].at = int32(i), int32(j)
}
