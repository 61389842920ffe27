package admission

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/internal/sim"
)

// stall offers 280 a second to a server of 300 a second that does nothing for
// 10 s. Clients give up after 1 s and try once more; the server does not learn
// that they gave up. It returns how many seconds after the stall the first of
// three seconds begins with 90 % of what is asked.
func stall(c Config, seed uint64, tell bool) int {
	const from, until = 60, 70
	h := newHouse(c, seed, exponential(time.Duration(c.Limit)*time.Second/300))
	ok := make([]int, 130)
	type call struct {
		Ticket
		answered, second bool
	}
	var try func(second bool)
	try = func(second bool) {
		k := &call{second: second}
		k.Value = k
		began := h.Now()
		if tell {
			k.Deadline = began + int64(time.Second)
		}
		h.After(int64(time.Second), func() {
			if !k.answered && !k.second {
				try(true)
			}
			k.answered = true
		})
		h.arrive(&k.Ticket)
	}
	h.served = func(t *Ticket) {
		if k := t.Value.(*call); !k.answered {
			k.answered = true
			ok[h.Now()/second]++
		}
	}
	h.refused = func(t *Ticket, _ Verdict) {
		if k := t.Value.(*call); !k.answered {
			k.answered = true
			if !k.second {
				h.After(int64(10*time.Millisecond)+h.Rand.Int64N(int64(100*time.Millisecond)), func() { try(true) })
			}
		}
	}
	h.Poisson(sim.PerSecond(280), func() { try(false) })
	h.At(from*second, func() { h.stalled = until * second })
	h.Run(int64(len(ok)) * second)
	for i := until; i+2 < len(ok); i++ {
		if min(ok[i], ok[i+1], ok[i+2]) >= 252 {
			return i - until
		}
	}
	return len(ok) - until
}

func TestRecoversFromAStall(t *testing.T) {
	large(t)
	for _, c := range []Config{{Limit: 10}, {Limit: 10, Order: Milk}, {Limit: 30}} {
		for _, tell := range []bool{false, true} {
			t.Run(fmt.Sprintf("limit=%d,order=%d,deadline=%v", c.Limit, c.Order, tell), func(t *testing.T) {
				for seed := range uint64(10) {
					assert.LessOrEqual(t, stall(c, seed, tell), 2, "seed %d", seed)
				}
			})
		}
	}
	t.Run("without a bound it never does", func(t *testing.T) {
		assert.Greater(t, stall(Config{Limit: 10, Queue: 1e9, MaxWait: -1}, 1, false), 30)
	})
}
