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
	c.Limit = 10
	h := newHouse(c, seed, exponential(time.Second/30))
	ok, asked := make([]int, 130), make([]int, 130)
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
	h.Poisson(sim.PerSecond(280), func() { asked[h.Now()/second]++; try(false) })
	h.At(from*second, func() { h.stalled = until * second })
	h.Run(int64(len(ok)) * second)
	if seed == 6 {
		fmt.Println(asked[55:90])
		fmt.Println(ok[55:90])
	}
	for i := until; i+2 < len(ok); i++ {
		if min(ok[i], ok[i+1], ok[i+2]) >= 252 {
			return i - until
		}
	}
	return len(ok) - until
}

func TestRecoversFromAStall(t *testing.T) {
	for _, order := range []Order{Wine, Milk} {
		for _, tell := range []bool{false, true} {
			t.Run(fmt.Sprintf("order=%d,deadline=%v", order, tell), func(t *testing.T) {
				for seed := range uint64(10) {
					got := stall(Config{Order: order}, seed, tell)
					t.Log(seed, got)
					assert.LessOrEqual(t, got, 2, "seed %d", seed)
				}
			})
		}
	}
	t.Run("without a bound it never does", func(t *testing.T) {
		assert.Greater(t, stall(Config{Queue: 1e9, MaxWait: -1}, 1, false), 30)
	})
}
