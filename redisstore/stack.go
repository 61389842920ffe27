package redisstore

import (
	"fmt"
	"math"
	"strings"

	"github.com/politehttp/polite/limiter"
)

// A stack is the charges of one decision.
type stack struct {
	charges []limiter.Charge
	tag     string   // of all keys; see slots.go
	seats   []seat   // one for each limit and key
	of      []int    // the seat of each charge; nil: each has its own
	keys    []string // of the seats
	args    []string // empty, with room for those of the scripts
	asks    bool     // only: nothing is to be charged
}

// A seat is what a decision charges to one limit and key.
type seat struct {
	*plan
	key  string // as the charge has it
	cost int64  // of all charges to it
	mark uint32 // of the key, before Redis was asked
}

// stack lists the limits and keys, each once. The names of all keys of a
// decision are made here.
func (s *Store) stack(charges []limiter.Charge) (*stack, error) {
	st := newStack(len(charges))
	st.charges, st.tag = charges, s.tagOf(&charges[0])
	for i := range charges {
		c := &charges[i]
		p, err := s.plans.of(c.Limit)
		if err != nil {
			return nil, err
		}
		if tag := s.tagOf(c); tag != st.tag {
			return nil, crossing(&charges[0], c, st.tag, tag)
		}
		at := st.find(p, c.Key)
		switch {
		case at == len(st.seats):
			st.seats = append(st.seats, seat{plan: p, key: c.Key, cost: c.Cost})
		case st.seats[at].spec != p.spec:
			return nil, fmt.Errorf("redisstore: two limits named %q with different numbers in one decision: a name is what Redis knows a limit by", c.Limit.Name())
		default:
			st.seats[at].cost = sum(st.seats[at].cost, c.Cost)
			if st.of == nil {
				st.of = make([]int, i, len(charges))
				for j := range st.of {
					st.of[j] = j
				}
			}
		}
		if st.of != nil {
			st.of = append(st.of, at)
		}
	}
	s.name(st)
	return st, nil
}

// newStack returns a stack for n charges, made in one piece if they are few.
func newStack(n int) *stack {
	switch n {
	case 1:
		st := new(struct {
			stack
			seats [1]seat
			keys  [1]string
			args  [3]string
		})
		st.stack.seats, st.stack.keys, st.stack.args = st.seats[:0], st.keys[:0], st.args[:0]
		return &st.stack
	case 2, 3:
		st := new(struct {
			stack
			seats [3]seat
			keys  [3]string
			args  [7]string
		})
		st.stack.seats, st.stack.keys, st.stack.args = st.seats[:0], st.keys[:0], st.args[:0]
		return &st.stack
	}
	return &stack{seats: make([]seat, 0, n), keys: make([]string, 0, n), args: make([]string, 0, 2+2*n)}
}

// find returns the seat of a limit and key, or how many there are.
func (st *stack) find(p *plan, key string) int {
	for i := range st.seats {
		if c := &st.seats[i]; c.key == key && c.name == p.name {
			return i
		}
	}
	return len(st.seats)
}

// name makes the names of all keys, in one piece.
func (s *Store) name(st *stack) {
	var (
		room [256]byte
		many [4]int
		part string
	)
	all, ends := room[:0], many[:0]
	for i := range st.seats {
		c := &st.seats[i]
		if i == 0 || c.key != st.seats[i-1].key {
			part = keyPart(c.key)
		}
		all = s.appendKey(all, st.tag, c.name, part)
		ends = append(ends, len(all))
	}
	text, begin := string(all), 0
	for _, end := range ends {
		st.keys = append(st.keys, text[begin:end])
		begin = end
	}
}

// ownKey is the name of a key for who keeps it: alone, where all are one piece.
func (st *stack) ownKey(i int) string {
	if len(st.keys) == 1 {
		return st.keys[0]
	}
	return strings.Clone(st.keys[i])
}

// sum is at most what no limit admits.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
