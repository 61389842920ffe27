package admission

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told is what Next says until it says no more, as "verdict name".
func told(g *Gate, now int64) (all []string) {
	for t, v := g.Next(now); t != nil; t, v = g.Next(now) {
		all = append(all, fmt.Sprint(v, " ", t.Value))
	}
	return all
}

// fill admits somebody for every place.
func fill(t *testing.T, g *Gate) (inside []*Ticket) {
	for range g.Limit() {
		k := &Ticket{Value: "first"}
		require.Equal(t, Admitted, g.Arrive(k, 0))
		inside = append(inside, k)
	}
	return inside
}

func TestLimit(t *testing.T) {
	t.Run("0 is nobody, when idle too (kubernetes#134196)", func(t *testing.T) {
		g := New(Config{Queue: 2}, 1)
		assert.Equal(t, Queued, g.Arrive(&Ticket{Value: "a"}, 0))
		assert.Empty(t, told(g, 0))
		g.SetLimit(-3)
		assert.Zero(t, g.Limit())
		assert.Empty(t, told(g, 0))
		g.SetLimit(1)
		assert.Equal(t, []string{"admitted a"}, told(g, 0))
	})
	t.Run("lowered, nobody is thrown out", func(t *testing.T) {
		g := New(Config{Limit: 3, Queue: 5}, 1)
		inside := fill(t, g)
		g.SetLimit(1)
		g.Arrive(&Ticket{Value: "a"}, 0)
		for i, want := range []int{2, 1} {
			require.True(t, g.Leave(inside[i], 0, false))
			assert.Empty(t, told(g, 0))
			assert.Equal(t, want, g.InFlight())
		}
		g.Leave(inside[2], 0, false)
		assert.Equal(t, []string{"admitted a"}, told(g, 0))
		assert.Equal(t, 1, g.InFlight())
	})
	t.Run("the default queue falls with it", func(t *testing.T) {
		g := New(Config{Limit: 20}, 1)
		fill(t, g)
		for i := range 40 {
			require.Equal(t, Queued, g.Arrive(&Ticket{Value: i}, 0))
		}
		require.Equal(t, Full, g.Arrive(&Ticket{}, 0))
		g.SetLimit(19)
		assert.Equal(t, []string{"pushed 39", "pushed 38"}, told(g, 0))
		g.SetLimit(1)
		assert.Len(t, told(g, 0), 22)
		assert.Equal(t, 16, g.Waiting())
	})
	t.Run("a part of a request does not wait for its parent (website#46769)", func(t *testing.T) {
		g := New(Config{Limit: 1, Queue: 1}, 1)
		parent := fill(t, g)[0]
		g.Arrive(&Ticket{Class: CriticalPlus, Value: "a"}, 0)
		part := &Ticket{Nested: true, Class: Sheddable}
		assert.Equal(t, Admitted, g.Arrive(part, 0))
		assert.Equal(t, 1, g.InFlight())
		assert.True(t, g.Leave(part, 0, true))
		assert.False(t, g.Leave(part, 0, true))
		assert.Empty(t, told(g, 0))
		g.Leave(parent, 0, true)
		assert.Equal(t, []string{"admitted a"}, told(g, 0))
	})
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		order   Order
		arrive  []Verdict // of a, b, c where two may wait
		pushed  []string
		served  []string
		expired []string // when nobody is served
	}{
		{"wine", Wine, []Verdict{Queued, Queued, Full}, nil, []string{"admitted a", "admitted b"}, []string{"expired a", "expired b"}},
		{"milk", Milk, []Verdict{Queued, Queued, Queued}, []string{"pushed a"}, []string{"admitted c", "admitted b"}, []string{"expired b", "expired c"}},
	} {
		for _, serve := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s,serve=%v", c.name, serve), func(t *testing.T) {
				g := New(Config{Limit: 2, Queue: 2, Order: c.order, MaxWait: 100}, 1)
				inside := fill(t, g)
				var pushed []string
				for i, want := range c.arrive {
					require.Equal(t, want, g.Arrive(&Ticket{Value: string(rune('a' + i))}, int64(i)))
					pushed = append(pushed, told(g, int64(i))...)
				}
				assert.Equal(t, c.pushed, pushed)
				if serve {
					for _, k := range inside {
						g.Leave(k, 50, true)
					}
					assert.Equal(t, c.served, told(g, 50))
					return
				}
				var expired []string
				for g.Due() != math.MaxInt64 {
					assert.Empty(t, told(g, g.Due()-1))
					expired = append(expired, told(g, g.Due())...)
				}
				assert.Equal(t, c.expired, expired)
			})
		}
	}
}

func TestClasses(t *testing.T) {
	g := New(Config{Limit: 1, Queue: 3}, 1)
	first := fill(t, g)[0]
	arrive := func(c Class) Verdict {
		return g.Arrive(&Ticket{Class: c, Value: c}, 0)
	}
	require.Equal(t, Queued, arrive(Sheddable))
	require.Equal(t, Queued, arrive(SheddablePlus))
	require.Equal(t, Queued, arrive(Critical))
	assert.Equal(t, Full, arrive(Sheddable), "the lowest is dropped")
	assert.Equal(t, Queued, arrive(CriticalPlus-99), "as CriticalPlus")
	assert.Equal(t, []string{fmt.Sprint("pushed ", Sheddable)}, told(g, 0))
	assert.Equal(t, Queued, arrive(Critical))
	assert.Equal(t, []string{fmt.Sprint("pushed ", SheddablePlus)}, told(g, 0))
	assert.Equal(t, Full, arrive(Sheddable+99))

	g.Leave(first, 0, true)
	for _, want := range []Class{CriticalPlus - 99, Critical, Critical} {
		k, v := g.Next(0)
		require.Equal(t, Admitted, v)
		assert.Equal(t, want, k.Value)
		g.Leave(k, 0, true)
	}
}

// TestPatient: a producer is slowed down, not refused.
func TestPatient(t *testing.T) {
	g := New(Config{Limit: 1, Queue: 1, Order: Milk, MaxWait: 10}, 1)
	first := fill(t, g)[0]
	for i := range 5 {
		require.Equal(t, Queued, g.Arrive(&Ticket{Patient: true, Value: i}, 0))
	}
	require.Equal(t, Queued, g.Arrive(&Ticket{Value: "a"}, 0))
	require.Equal(t, Queued, g.Arrive(&Ticket{Value: "b"}, 0))
	assert.Equal(t, []string{"pushed a"}, told(g, 0))
	assert.Equal(t, []string{"expired b"}, told(g, 1000))
	assert.Equal(t, int64(math.MaxInt64), g.Due())
	for i := range 5 {
		g.Leave(first, 1000, true)
		k, v := g.Next(1000)
		require.Equal(t, Admitted, v)
		assert.Equal(t, i, k.Value)
		first = k
	}
	none := New(Config{Limit: 1, Queue: -1}, 1)
	fill(t, none)
	assert.Equal(t, Full, none.Arrive(&Ticket{}, 0))
	assert.Equal(t, Queued, none.Arrive(&Ticket{Patient: true}, 0))
	assert.Equal(t, Late, none.Arrive(&Ticket{Patient: true, Deadline: -1}, 0))
}

// learn makes a gate know that requests take d.
func learn(g *Gate, d int64) {
	for range 100 {
		k := &Ticket{}
		g.Arrive(k, 0)
		g.Leave(k, d, true)
	}
}

func TestDeadline(t *testing.T) {
	const ms = millisecond
	t.Run("gone", func(t *testing.T) {
		g := New(Config{Limit: 1}, 1)
		assert.Equal(t, Late, g.Arrive(&Ticket{Deadline: 5 * ms}, 5*ms))
		assert.Equal(t, Admitted, g.Arrive(&Ticket{Deadline: 5*ms + 1}, 5*ms), "nothing is known of what it takes")
	})
	t.Run("too little is left to serve it", func(t *testing.T) {
		g := New(Config{Limit: 1}, 1)
		learn(g, 20*ms)
		assert.Equal(t, Late, g.Arrive(&Ticket{Deadline: 15 * ms}, 0))
		assert.Equal(t, Admitted, g.Arrive(&Ticket{Deadline: 25 * ms}, 0))
	})
	t.Run("too little is left to wait", func(t *testing.T) {
		g := New(Config{Limit: 2, Queue: 50, MaxWait: second}, 1)
		learn(g, 20*ms)
		fill(t, g)
		for range 10 {
			require.Equal(t, Queued, g.Arrive(&Ticket{}, 0))
		}
		// 11 places come free at one in 10 ms, and then it takes 20 ms.
		assert.Equal(t, Late, g.Arrive(&Ticket{Deadline: 115 * ms}, 0))
		assert.Equal(t, Queued, g.Arrive(&Ticket{Deadline: 145 * ms}, 0))
		assert.Equal(t, Queued, g.Arrive(&Ticket{Deadline: 60 * ms, Class: CriticalPlus}, 0), "it goes before them")
		assert.Equal(t, Queued, g.Arrive(&Ticket{Deadline: 90 * ms, Tenant: "a"}, 0), "it takes turns with them")
		assert.Equal(t, Late, g.Arrive(&Ticket{Deadline: 115 * ms, Class: Sheddable}, 0), "they go before it")
	})
	t.Run("MaxWait is too short to wait", func(t *testing.T) {
		g := New(Config{Limit: 1, Queue: 50, MaxWait: 100 * ms}, 1)
		learn(g, 22*ms)
		fill(t, g)
		var got []Verdict
		for range 6 {
			got = append(got, g.Arrive(&Ticket{}, 0))
		}
		assert.Equal(t, []Verdict{Queued, Queued, Queued, Queued, Full, Full}, got)
	})
	t.Run("gone while waiting", func(t *testing.T) {
		g := New(Config{Limit: 1, Queue: 5, MaxWait: -1}, 1)
		first := fill(t, g)[0]
		g.Arrive(&Ticket{Deadline: 50 * ms, Value: "a"}, 0)
		g.Arrive(&Ticket{Deadline: 30 * ms, Value: "b"}, 0)
		assert.Equal(t, 30*ms, g.Due())
		assert.Equal(t, []string{"expired b"}, told(g, 30*ms))
		assert.Equal(t, 50*ms, g.Due())
		g.Leave(first, 49*ms, false)
		assert.Equal(t, []string{"admitted a"}, told(g, 49*ms))
	})
	t.Run("what it takes is learnt while it waits", func(t *testing.T) {
		g := New(Config{Limit: 20, Queue: 5}, 1)
		inside := fill(t, g)
		g.Arrive(&Ticket{Deadline: 100 * ms, Value: "a"}, 0)
		for _, k := range inside {
			g.Leave(k, 60*ms, true)
		}
		assert.Equal(t, []string{"expired a"}, told(g, 60*ms))
		assert.Zero(t, g.InFlight())
	})
	t.Run("a part of a request tells nothing", func(t *testing.T) {
		g := New(Config{Limit: 1}, 1)
		for range 100 {
			k := &Ticket{Nested: true}
			g.Arrive(k, 0)
			g.Leave(k, second, true)
		}
		assert.Equal(t, Admitted, g.Arrive(&Ticket{Deadline: ms}, 0))
	})
	t.Run("a stall is not remembered for ever", func(t *testing.T) {
		for _, rate := range []int64{2, 1000} { // by time, however few ask
			g := New(Config{Limit: 100}, 1)
			learn(g, 2*second)
			now := 2 * second
			require.Equal(t, Late, g.Arrive(&Ticket{Deadline: now + second/2}, now))
			for g.Arrive(&Ticket{Deadline: now + second/2}, now) == Late {
				now += second / rate
			}
			assert.LessOrEqual(t, now, 4*second)
		}
	})
	t.Run("the tail is for when the queue loses some", func(t *testing.T) {
		g := New(Config{Limit: 50, Queue: 20}, 1)
		for i := range int64(100) {
			k := &Ticket{}
			g.Arrive(k, 0)
			g.Leave(k, (10+i)*ms, true)
		}
		arrive := func(left, now int64) Verdict {
			k := &Ticket{Deadline: now + left}
			v := g.Arrive(k, now)
			g.Leave(k, now, false)
			g.Cancel(k, now)
			return v
		}
		assert.Equal(t, Late, arrive(5*ms, 100*ms))
		assert.Equal(t, Admitted, arrive(50*ms, 100*ms), "some are as quick")
		inside := fill(t, g)
		assert.Equal(t, Queued, arrive(50*ms, 100*ms))
		for range 20 {
			g.Arrive(&Ticket{}, 100*ms)
		}
		require.Equal(t, Full, g.Arrive(&Ticket{}, 100*ms))
		for _, k := range inside {
			g.Leave(k, 100*ms, false)
		}
		g.SetLimit(100)
		told(g, 100*ms)
		assert.Equal(t, Late, arrive(50*ms, 200*ms))
		assert.Equal(t, Admitted, arrive(150*ms, 200*ms))
		g.SetLimit(g.InFlight())
		for now := 200 * ms; now < 1100*ms; now += ms { // who is refused for it does not prolong it
			require.Equal(t, Late, arrive(50*ms, now))
		}
		g.SetLimit(100)
		assert.Equal(t, Admitted, arrive(50*ms, 1100*ms), "a second later it is over")
	})
	t.Run("a part of a request is let in until it is over", func(t *testing.T) {
		g := New(Config{Limit: 1}, 1)
		learn(g, 100*ms)
		assert.Equal(t, Admitted, g.Arrive(&Ticket{Nested: true, Deadline: 101 * ms}, 100*ms))
		assert.Equal(t, Late, g.Arrive(&Ticket{Nested: true, Deadline: 100 * ms}, 100*ms))
	})
	t.Run("what counts is the work", func(t *testing.T) {
		g := New(Config{Limit: 1}, 1)
		for range 100 {
			k := &Ticket{}
			g.Arrive(k, 0)
			k.Ready = 5 * ms
			g.Leave(k, 10*second, true)
			k = &Ticket{Patient: true}
			g.Arrive(k, 0)
			g.Leave(k, 10*second, true)
		}
		assert.Less(t, g.service.typical(10*second).mean, 6*ms)
	})
	t.Run("a wait without end", func(t *testing.T) {
		g := New(Config{Limit: 1, MaxWait: math.MaxInt64}, 1)
		fill(t, g)
		assert.Equal(t, Queued, g.Arrive(&Ticket{}, 5))
		assert.Equal(t, int64(math.MaxInt64), g.Due())
	})
	t.Run("who comes too late says nothing about the queue", func(t *testing.T) {
		g := New(Config{Limit: 10}, 1)
		for i := range int64(1000) {
			g.Arrive(&Ticket{Deadline: 1}, i*second/10)
		}
		assert.Equal(t, time.Second, g.RetryAfter(100*second, 0))
		assert.Equal(t, 2*time.Second, g.RetryAfter(100*second, .99))
	})
}

// TestOneAtATime: who asks again as soon as it was served is new each time, and
// still has no more than half beside one who always waits.
func TestOneAtATime(t *testing.T) {
	g := New(Config{Limit: 1, Queue: 10}, 1)
	running := fill(t, g)[0]
	for range 5 {
		g.Arrive(&Ticket{Tenant: "hog", Value: "hog"}, 0)
	}
	g.Arrive(&Ticket{Tenant: "a", Value: "a"}, 0)
	served := map[any]int{}
	for range 1000 {
		g.Leave(running, 0, false)
		running, _ = g.Next(0)
		served[running.Value]++
		g.Arrive(&Ticket{Tenant: running.Value.(string), Value: running.Value}, 0)
	}
	assert.InDelta(t, 500, served["a"], advance)
}

// TestSaved: turns that were not used are used once. One who waits until others
// were served and then sends four has no more than half either.
func TestSaved(t *testing.T) {
	g := New(Config{Limit: 1, Queue: 20}, 1)
	running := fill(t, g)[0]
	hog := func() { g.Arrive(&Ticket{Tenant: "hog", Value: "hog"}, 0) }
	for range 5 {
		hog()
	}
	served, waits, others := map[any]int{}, 0, 0
	for range 1000 {
		g.Leave(running, 0, false)
		running, _ = g.Next(0)
		served[running.Value]++
		if running.Value == "a" {
			waits, others = waits-1, 0
			continue
		}
		hog()
		if others++; waits == 0 && others == 2 {
			for ; waits < 4; waits++ {
				g.Arrive(&Ticket{Tenant: "a", Value: "a"}, 0)
			}
		}
	}
	assert.LessOrEqual(t, served["a"], 500+advance)
	assert.Greater(t, served["a"], 400)
}

// TestWeight: the last word on a tenant's weight counts.
func TestWeight(t *testing.T) {
	g := New(Config{Limit: 1, Queue: 100}, 1)
	running := fill(t, g)[0]
	for i := range 80 {
		w := 1
		if i >= 40 {
			w = 3
		}
		tenant := string(rune('a' + i%2))
		if tenant == "b" {
			w = -1
		}
		require.Equal(t, Queued, g.Arrive(&Ticket{Tenant: tenant, Weight: w, Value: tenant}, 0))
	}
	require.Equal(t, 4, g.lines[1].weight)
	served := map[any]int{}
	for range 48 {
		g.Leave(running, 0, false)
		running, _ = g.Next(0)
		served[running.Value]++
	}
	assert.InDelta(t, 36, served["a"], 6, "the saved turns are of its first weight")
}

// TestTies: tenants with as many waiting lose by the order.
func TestTies(t *testing.T) {
	for _, order := range []Order{Wine, Milk} {
		g := New(Config{Limit: 1, Queue: 5, Order: order}, 1)
		fill(t, g)
		var v Verdict
		for i := range 6 {
			v = g.Arrive(&Ticket{Tenant: strconv.Itoa(i), Value: i}, 0)
		}
		if order == Wine {
			assert.Equal(t, Full, v)
			assert.Empty(t, told(g, 0))
		} else {
			assert.Equal(t, Queued, v)
			assert.Equal(t, []string{"pushed 0"}, told(g, 0))
		}
	}
}
