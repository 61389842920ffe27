package pacer

import (
	"hash/maphash"
	"time"
)

const (
	defaultMaxKeys = 4096
	overflowLines  = 64                      // shared by the keys that found no room
	longScan       = 256                     // lines; looking through more of them in vain...
	scanPause      = int64(time.Millisecond) // ...is done no more often
	clockSwitch    = int64(10 * 365 * 24 * time.Hour)
)

// keys is every line of a pacer, bounded, guarded by the room's lock.
type keys struct {
	lines          map[string]*line
	oldest, newest *line
	overflow       []*line // by a seeded hash; nil until needed
	seed           maphash.Seed
	tight          int64 // until then no line can go, unless something ends...
	scan           int64 // ...and until then nobody looks again
	overflowed     int64
	waiting        int

	pace Pace // in force
	rev  int  // counts its changes

	epoch, read time.Time
	at, shift   int64
}

// Stats is what a pacer holds now, and what it has come to.
type Stats struct {
	Keys       int   // with an entry of their own
	Waiting    int   // calls
	Overflowed int64 // calls of keys that had to share an entry, since the start
}

// Stats returns what p holds.
func (p *Pacer) Stats() Stats {
	r := p.lock()
	defer r.mu.Unlock()
	return Stats{len(p.lines), p.keys.waiting, p.overflowed}
}

// prepare readies p at its first use. The lock is held.
func (p *Pacer) prepare() {
	if p.lines != nil {
		return
	}
	p.lines = make(map[string]*line)
	p.seed = maphash.MakeSeed()
	p.pace = Pace{p.Rate, p.Burst, p.Shape}
	p.epoch = time.Now()
}

// clock is now on p's own clock, in nanoseconds from its first use. It never
// steps back, and it takes a leap of ten years for what it is: another clock,
// for a synctest bubble begins in the year 2000 and its end leaps back.
func (p *Pacer) clock(now time.Time) int64 {
	if now == p.read {
		return p.at
	}
	t := int64(now.Sub(p.epoch)) + p.shift
	if d := t - p.at; d < 0 || d > clockSwitch {
		p.shift -= d
		t = p.at
	}
	p.read, p.at = now, t
	return t
}

// find returns the line of a key, made at need.
func (p *Pacer) find(key string) *line {
	if l := p.last.Load(); l != nil && l.key == key {
		return l
	}
	l := p.lines[key]
	if l == nil {
		return p.enter(key, p.clock(time.Now()))
	}
	if l != p.newest {
		p.unlink(l)
		p.link(l)
	}
	p.last.Store(l)
	return l
}

// known returns the line of a key if it has one.
func (p *Pacer) known(key string) *line {
	if l := p.lines[key]; l != nil || p.overflow == nil {
		return l
	}
	return p.overflow[p.slot(key)]
}

func (p *Pacer) slot(key string) uint64 { return maphash.String(p.seed, key) % overflowLines }

// enter makes a line for a key that has none. A key whose shared line is in
// use stays there, or it could use both.
func (p *Pacer) enter(key string, now int64) *line {
	if l := p.known(key); l != nil && l.fresh(now) > now {
		p.overflowed++
		return l
	}
	if most := p.maxKeys(); most < 0 || len(p.lines) < most || p.evict(now) {
		l := p.newLine(key, now)
		p.lines[key] = l
		p.link(l)
		p.last.Store(l)
		return l
	}
	p.overflowed++
	if p.overflow == nil {
		p.overflow = make([]*line, overflowLines)
	}
	i := p.slot(key)
	if p.overflow[i] == nil {
		p.overflow[i] = p.newLine("", now)
	}
	return p.overflow[i]
}

func (p *Pacer) newLine(key string, now int64) *line {
	l := &line{pacer: p, key: key}
	l.bucket.set(p.pace, now)
	l.learnt.fedAt, l.flight.markAt = now, now
	if p.bounded() {
		l.release = l.land
	}
	if p.AdaptInFlight {
		l.aimd = newAIMD(p.MaxInFlight)
	}
	l.refresh(now)
	return l
}

// evict drops the oldest line that equals a new one. One that is pinned stays.
func (p *Pacer) evict(now int64) bool {
	if now < p.tight {
		return false
	}
	tight := int64(never)
	for l := p.oldest; l != nil; l = l.newer {
		at := l.fresh(now)
		if at <= now && !l.pinned {
			p.unlink(l)
			delete(p.lines, l.key)
			p.last.CompareAndSwap(l, nil)
			return true
		}
		tight = min(tight, at)
	}
	p.scan = now
	if len(p.lines) > longScan {
		p.scan = now + scanPause
	}
	p.tight = max(tight, p.scan)
	return false
}

// loosen says that a line may go by now.
func (p *Pacer) loosen() { p.tight = min(p.tight, p.scan) }

func (p *Pacer) link(l *line) {
	l.older, l.newer = p.newest, nil
	if p.newest == nil {
		p.oldest = l
	} else {
		p.newest.newer = l
	}
	p.newest = l
}

func (p *Pacer) unlink(l *line) {
	if l.older == nil {
		p.oldest = l.newer
	} else {
		l.older.newer = l.newer
	}
	if l.newer == nil {
		p.newest = l.older
	} else {
		l.newer.older = l.older
	}
	l.older, l.newer = nil, nil
}
