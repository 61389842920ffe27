package redisstore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/limiter"
)

// maxNear is how long what is known here stands without Redis being asked, so
// that a key that somebody gave units back to, or removed, is noticed.
const maxNear = time.Minute

// A shelf has what is known of some keys in this process. At its bound it
// forgets what is no longer of use, or else any key.
type shelf struct {
	once  sync.Once
	seed  maphash.Seed
	used  uint64 // how many of the parts there are
	max   int    // of each part
	count atomic.Int64
	parts [16]shelfPart
	marks [1024]atomic.Uint32 // how often a key was dropped, some keys together
}

type shelfPart struct {
	mu sync.Mutex
	m  map[string]*known
}

// known is the level of one key when Redis was last asked.
type known struct {
	spec  string    // of the limit whose state it is
	level level     // of the key
	cost  int64     // that was asked
	now   int64     // by the clock of Redis, in microseconds
	at    time.Time // by this process's, with a monotonic reading; a little before
	until time.Time // no longer of use

	share sync.Once // until this process's share starts from it
}

// forKeys returns the shelf, which remembers at most n keys, n being positive.
func (s *shelf) forKeys(n int) *shelf {
	s.once.Do(func() {
		s.seed = maphash.MakeSeed()
		s.used = uint64(min(len(s.parts), n))
		s.max = n / int(s.used)
	})
	return s
}

func (s *shelf) of(key string) (*shelfPart, *atomic.Uint32) {
	h := maphash.String(s.seed, key)
	return &s.parts[h%s.used], &s.marks[h>>32%uint64(len(s.marks))]
}

// mark changes when the key is dropped.
func (s *shelf) mark(key string) uint32 {
	_, mark := s.of(key)
	return mark.Load()
}

// keep remembers k.
func (s *shelf) keep(key string, k *known) { s.keepSince(nil, key, k) }

// keepSince remembers k, unless the key was dropped since its mark was read: who
// did that knows more than k does.
func (s *shelf) keepSince(since *uint32, key string, k *known) {
	part, mark := s.of(key)
	part.mu.Lock()
	defer part.mu.Unlock()
	s.count.Add(1) // first: drop looks at it after it has changed the mark
	if since != nil && mark.Load() != *since {
		s.count.Add(-1)
		return
	}
	if part.m == nil {
		part.m = map[string]*known{}
	}
	if _, ok := part.m[key]; ok {
		s.count.Add(-1)
	} else if len(part.m) >= s.max {
		s.makeRoom(part.m, k.at)
	}
	part.m[key] = k
}

// makeRoom looks at a few keys, which a map gives in random order.
func (s *shelf) makeRoom(m map[string]*known, now time.Time) {
	looked, victim := 0, ""
	for key, k := range m {
		if victim = key; !now.Before(k.until) {
			delete(m, key)
			s.count.Add(-1)
			victim = ""
		}
		if looked++; looked == 8 {
			break
		}
	}
	if len(m) >= s.max && victim != "" {
		delete(m, victim)
		s.count.Add(-1)
	}
}

// find returns what is known of a key under the limit with this spec, or nil.
func (s *shelf) find(key, spec string) *known {
	if s.count.Load() == 0 {
		return nil
	}
	part, _ := s.of(key)
	part.mu.Lock()
	k := part.m[key]
	part.mu.Unlock()
	if k == nil || k.spec != spec {
		return nil
	}
	return k
}

// drop forgets a key.
func (s *shelf) drop(key string) {
	part, mark := s.of(key)
	mark.Add(1)
	if s.count.Load() == 0 {
		return
	}
	part.mu.Lock()
	if _, ok := part.m[key]; ok {
		delete(part.m, key)
		s.count.Add(-1)
	}
	part.mu.Unlock()
}

// redisNow guesses what the clock of Redis shows, never ahead of it but by the
// time that the answer had to travel.
func (k *known) redisNow(now time.Time) int64 {
	return k.now + int64(now.Sub(k.at)/time.Microsecond)
}

// refusedNear decides on a stack of which everything is known here, if one of
// its limits refuses: what others have charged since can only refuse longer.
func (s *Store) refusedNear(st *stack, now time.Time) (d limiter.Decision, ok bool) {
	if s.NearKeys < 0 || s.near.count.Load() == 0 {
		return d, false
	}
	var few [4]*known
	all, refused := s.recall(few[:0], st, now)
	if !refused {
		return d, false
	}
	of := st.recalled(all, now)
	if len(st.charges) == 1 {
		return of[0], true
	}
	return st.join(of, false), true
}

// recall appends what is known of the seats, and says whether one refuses. If
// anything is not known, it returns nil.
func (s *Store) recall(all []*known, st *stack, now time.Time) (_ []*known, refused bool) {
	for i := range st.seats {
		c := &st.seats[i]
		k := s.near.find(st.keys[i], c.specFor(c.key))
		if k == nil || !now.Before(k.until) || c.rule.Long() && max(k.cost, 1) != max(c.cost, 1) {
			return nil, false
		}
		all = append(all, k)
		if at := k.redisNow(now); c.rule.Long() {
			if k.level.total > 0 && at >= k.level.room {
				return nil, false // some of it has expired, and how much only Redis knows
			}
			refused = refused || at < k.level.room
		} else {
			v := c.verdict(k.level, c.key, at, c.cost)
			refused = refused || v.Retry != 0 && v.Retry != rule.Never
		}
	}
	return all, refused
}

// recalled is what is known of the seats as decisions on charges not made.
func (st *stack) recalled(all []*known, now time.Time) []limiter.Decision {
	of := make([]limiter.Decision, len(st.seats))
	for i := range st.seats {
		of[i] = st.seats[i].unmade(all[i].level, all[i].redisNow(now))
	}
	return of
}

// nearby is the shelf of refusals, or nil.
func (s *Store) nearby() *shelf {
	switch {
	case s.NearKeys < 0:
		return nil
	case s.NearKeys == 0:
		return s.near.forKeys(defaultNear)
	}
	return s.near.forKeys(s.NearKeys)
}

// mark is called before Redis is asked: what this process has been told since of
// charges that were made, or given back, is not to be replaced with what Redis
// said before.
func (s *Store) mark(st *stack) {
	if near := s.nearby(); near != nil {
		for i := range st.seats {
			st.seats[i].mark = near.mark(st.keys[i])
		}
	}
}

// remember keeps what an answer has told: of refusals until when they last, and
// of limits under Local how much of them is used. What was known of a key that has
// now been charged is no longer true.
func (s *Store) remember(st *stack, a answer, d *limiter.Decision, sent time.Time) {
	near, until := s.nearby(), min(d.RetryAfter, maxNear)
	for i := range st.seats {
		c := &st.seats[i]
		switch {
		case near == nil:
		case d.Allowed:
			if c.cost > 0 {
				near.drop(st.keys[i])
			}
		case !d.Never && until > 0:
			near.keepSince(&c.mark, st.ownKey(i), &known{
				spec: c.specFor(c.key), level: a.levels[i], cost: c.cost,
				now: a.now, at: sent, until: sent.Add(until),
			})
		}
		if c.limit.OnFailure == limiter.Local {
			s.levels.forKeys(maxLevels).keep(st.ownKey(i), c.after(a, i, sent))
		}
	}
}

// forget drops what is known of refusals: units were given back.
func (s *Store) forget(st *stack) {
	if near := s.nearby(); near != nil {
		for _, key := range st.keys {
			near.drop(key)
		}
	}
}
