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
	seed  maphash.Seed
	once  sync.Once
	max   int // of each part
	count atomic.Int64
	parts [16]struct {
		mu sync.Mutex
		m  map[string]*known
	}
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

// keep remembers k for at most n keys.
func (s *shelf) keep(key string, k *known, n int) {
	s.once.Do(func() {
		s.seed = maphash.MakeSeed()
		s.max = (n + len(s.parts) - 1) / len(s.parts)
	})
	part := &s.parts[maphash.String(s.seed, key)%uint64(len(s.parts))]
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.m == nil {
		part.m = map[string]*known{}
	}
	if _, ok := part.m[key]; !ok {
		if len(part.m) >= s.max {
			s.makeRoom(part.m, k.at)
		}
		s.count.Add(1)
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
	part := &s.parts[maphash.String(s.seed, key)%uint64(len(s.parts))]
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
	if s.count.Load() == 0 {
		return
	}
	part := &s.parts[maphash.String(s.seed, key)%uint64(len(s.parts))]
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

// remember keeps what an answer has told: of refusals until when they last, and
// of limits under Local how much of them is used.
func (s *Store) remember(st *stack, a answer, d *limiter.Decision, sent time.Time) {
	if until := min(d.RetryAfter, maxNear); !d.Allowed && !d.Never && until > 0 && s.NearKeys >= 0 {
		bound := s.NearKeys
		if bound == 0 {
			bound = defaultNear
		}
		for i := range st.seats {
			c := &st.seats[i]
			s.near.keep(st.keys[i], &known{
				spec: c.specFor(c.key), level: a.levels[i], cost: c.cost,
				now: a.now, at: sent, until: sent.Add(until),
			}, bound)
		}
	}
	for i := range st.seats {
		if c := &st.seats[i]; c.limit.OnFailure == limiter.Local {
			s.levels.keep(st.keys[i], c.after(a, i, sent), maxLevels)
		}
	}
}

// forget drops what is known of refusals.
func (s *Store) forget(st *stack) {
	for _, key := range st.keys {
		s.near.drop(key)
	}
}
