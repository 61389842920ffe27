package admission

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// queued is a gate of one place, with so many of each tenant of weight w waiting.
func queued(t *testing.T, n int, weights ...int) (*Gate, *Ticket) {
	g := New(Config{Limit: 1, Queue: n * len(weights)}, 1)
	running := fill(t, g)[0]
	for range n {
		for i, w := range weights {
			require.Equal(t, Queued, g.Arrive(&Ticket{Tenant: fmt.Sprint(i), Known: true, Weight: w, Value: i}, 0))
		}
	}
	return g, running
}

// TestWeightsInTurns: only what weights are of each other matters, and the heavy
// go in between each other.
func TestWeightsInTurns(t *testing.T) {
	for _, w := range []int{1, 3, 100, 1000, 1 << 16, 1 << 30} {
		g, running := queued(t, 100, w, w, w)
		for i := range 300 {
			g.Leave(running, 0, false)
			running, _ = g.Next(0)
			require.Equal(t, i%3, running.Value, "weight %d, after %d", w, i)
		}
	}
	t.Run("beside a light one", func(t *testing.T) {
		g, running := queued(t, 1000, 1000, 1000, 1)
		served, longest, row := [3]int{}, 0, 0
		var last any
		for range 1900 {
			g.Leave(running, 0, false)
			running, _ = g.Next(0)
			served[running.Value.(int)]++
			if row++; running.Value != last {
				row, last = 1, running.Value
			}
			longest = max(longest, row)
		}
		assert.InDelta(t, served[0], served[1], 8)
		assert.InDelta(t, 2, served[2], 4)
		assert.LessOrEqual(t, longest, 2*advance)
	})
	t.Run("3 to 2", func(t *testing.T) {
		g, running := queued(t, 1000, 3, 2)
		served := [2]int{}
		for range 1000 {
			g.Leave(running, 0, false)
			running, _ = g.Next(0)
			served[running.Value.(int)]++
			assert.InDelta(t, 1.5*float64(served[1]), served[0], 8)
		}
	})
}

// TestWeightFalls: what was saved under another weight is as many turns, not as
// many requests.
func TestWeightFalls(t *testing.T) {
	for _, was := range []int{1, 1000, 1 << 16} {
		g, running := queued(t, 100, was, 1)
		for range 3 {
			g.Arrive(&Ticket{Tenant: "0", Known: true, Weight: 1, Value: 0}, 0)
		}
		served := [2]int{}
		for range 40 {
			g.Leave(running, 0, false)
			running, _ = g.Next(0)
			served[running.Value.(int)]++
		}
		assert.InDelta(t, 20, served[1], advance, "was %d", was)
	}
}

// TestWeightRises: what was saved, or owed, under a small weight is as many turns,
// and not as many times a turn of others.
func TestWeightRises(t *testing.T) {
	for _, first := range []int{0, 5} { // turns that were used before
		g, running := queued(t, 100, 1, 1000)
		next := func() int {
			g.Leave(running, 0, false)
			running, _ = g.Next(0)
			return running.Value.(int)
		}
		for used := 0; used < first; {
			if next() == 0 {
				used++
			}
			g.Arrive(&Ticket{Tenant: "1", Known: true, Weight: 1000, Value: 1}, 0)
		}
		g.Arrive(&Ticket{Tenant: "0", Known: true, Weight: 1000, Value: 0}, 0)
		served := [2]int{}
		for range 40 {
			served[next()]++
		}
		assert.InDelta(t, 20, served[0], advance, "after %d", first)
	}
}

// TestWeightRisesAmongMany: the turn of one whose weight rises is found.
func TestWeightRisesAmongMany(t *testing.T) {
	weights := []int{9, 9, 9, 9, 9, 9, 9, 1, 9, 9, 9, 9, 9, 9, 9, 1}
	g, running := queued(t, 100, weights...)
	served := make([]int, len(weights))
	serve := func(n int) {
		for range n {
			g.Leave(running, 0, false)
			running, _ = g.Next(0)
			served[running.Value.(int)]++
		}
	}
	serve(400)
	for _, i := range []int{7, 15} {
		g.Arrive(&Ticket{Tenant: fmt.Sprint(i), Known: true, Weight: 9, Value: i}, 0)
	}
	h := g.lines[Critical-CriticalPlus].turns
	for i := range h {
		assert.False(t, i > 0 && h.before(i, (i-1)/2), "%d is out of turn", i)
	}
	clear(served)
	serve(32)
	for i, n := range served {
		assert.InDelta(t, 2, n, 1, "tenant %d", i)
	}
}

// TestNamesThatWereProven: who calls himself like one who has proven it is
// another.
func TestNamesThatWereProven(t *testing.T) {
	for _, order := range []Order{Wine, Milk} {
		g := New(Config{Limit: 1, Queue: 10, Order: order}, 1)
		running := fill(t, g)[0]
		for range 9 {
			g.Arrive(&Ticket{Tenant: "acme", Value: "forged"}, 0)
		}
		for range 3 {
			assert.Equal(t, Queued, g.Arrive(&Ticket{Tenant: "acme", Known: true, Value: "acme"}, 0))
		}
		assert.Equal(t, []string{"pushed forged", "pushed forged"}, told(g, 0))
		served := map[any]int{}
		for range 6 {
			g.Leave(running, 0, false)
			running, _ = g.Next(0)
			served[running.Value]++
		}
		assert.Equal(t, 3, served["acme"])
	}
}

// TestClockGoesRound: tags may overflow.
func TestClockGoesRound(t *testing.T) {
	g, running := queued(t, 1, 1, 7)
	l := &g.lines[Critical-CriticalPlus]
	const near = 1<<63 - 50*whole
	l.clock += near
	for _, f := range l.turns {
		f.tag += near
	}
	served := [2]int{}
	for range 800 {
		g.Leave(running, 0, false)
		running, _ = g.Next(0)
		i := running.Value.(int)
		served[i]++
		g.Arrive(&Ticket{Tenant: fmt.Sprint(i), Known: true, Weight: []int{1, 7}[i], Value: i}, 0)
	}
	assert.Negative(t, l.clock)
	assert.InDelta(t, 100, served[0], advance)
}
