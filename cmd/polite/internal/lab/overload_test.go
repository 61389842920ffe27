package lab

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/sim"
)

func holds(t *testing.T, figures []Figure) {
	t.Helper()
	assert.NotEmpty(t, figures)
	for _, f := range figures {
		assert.True(t, f.OK, "%s is %v %s, and must be %s", f.Name, f.Got, f.Unit, f.Bound)
	}
}

// What the experiments with too much load must show.
func TestOverload(t *testing.T) {
	if raced {
		t.Skip(slowRaced)
	}
	for _, e := range overload {
		if e.Name == gate.Name { // TestGate
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			r, err := e.Run(t.Context(), Options{Seed: 1})
			require.NoError(t, err)
			holds(t, r.Figures)
			assert.NotEmpty(t, r.Pictures)
			for _, table := range r.Tables {
				for _, row := range table.Rows {
					assert.Len(t, row, len(table.Columns), "%s: %v", table.Title, row[0])
				}
			}
		})
	}
}

const slowRaced = "goroutines that share nothing: the race detector finds nothing, and takes minutes for it; TestOverloadSameAgain has some of it"

// Every figure that must hold before it is shipped. The worst of ten seeds is what
// TestAllAndDocsAreCurrent of the command wants to hold.
func TestGate(t *testing.T) {
	if raced {
		t.Skip(slowRaced)
	}
	n := 0
	for _, figures := range shipped {
		f := figures(1)
		holds(t, f)
		n += len(f)
	}
	assert.Equal(t, 35, n)
}

func TestWorstOf(t *testing.T) {
	got := worstOf(5, func(seed uint64) []Figure {
		v := float64(seed)
		return []Figure{
			atMost("high", v, 100, ""), atLeast("low", v, 0, ""), atMost("missed once", math.Mod(v, 5), 3, ""),
			between("between", v, 0, 8, ""),
		}
	})
	require.Len(t, got, 4)
	assert.EqualValues(t, 14, got[0].Got)
	assert.EqualValues(t, 5, got[1].Got)
	assert.EqualValues(t, 4, got[2].Got)
	assert.False(t, got[2].OK)
	assert.False(t, got[3].OK)
}

// The same seed gives the same, however many run abreast.
func TestOverloadSameAgain(t *testing.T) {
	text := func(v any) string {
		b, err := json.Marshal(v)
		assert.NoError(t, err)
		return string(b)
	}
	large := []string{"adaptive", "fair"} // no more goroutines than the others have, for seconds with -race
	for name, run := range map[string]func(seed uint64) any{
		"collapse": func(seed uint64) any { return runCollapseCase(seed, collapseGate).good },
		"throttle": func(seed uint64) any {
			return runThrottled(seed, 90, defaults, duringOutage, 200).sent
		},
		"adaptive": func(seed uint64) any { return adaptiveFigures(seed) },
		"fair":     func(seed uint64) any { return runTenants(seed, beside, fairDoors[fairOurs].new).began },
	} {
		if raced && slices.Contains(large, name) {
			continue
		}
		runs := abreast(3, func(i int) string { return text(run([]uint64{3, 3, 4}[i])) })
		assert.Equal(t, runs[0], runs[1], name)
		assert.NotEqual(t, runs[0], runs[2], name)
	}
	assert.Equal(t, []int{0, 1, 4, 9, 16}, abreast(5, func(i int) int { return i * i }))
}

// The models agree with what arithmetic says of them.
func TestModels(t *testing.T) {
	t.Run("a server's load is what it does", func(t *testing.T) {
		run := overloadBy(1, 50, 20, 120, overloadDoors[1].new)
		assert.InDelta(t, 1000, run.capacity, 10)
		assert.InDelta(t, 500, run.goodput, 7)
		// M/M/10 at half load hardly waits: 99 % of an exponential of 10 ms.
		assert.InDelta(t, 46.1, run.p99, 1.5)
	})
	t.Run("a budget of a tenth per call is 1.1 times the load", func(t *testing.T) {
		b := &perCall{share: 0.1, most: 100}
		assert.InDelta(t, 1.1, steady(1, b, 1, 20*time.Second).load(), 0.001)
	})
	t.Run("a fifth of ten seconds, and ten a second", func(t *testing.T) {
		assert.InDelta(t, 1.21, steady(1, &deposits{share: 0.2, floor: 10}, 1, 30*time.Second).load(), 0.005)
	})
	t.Run("without a budget four attempts are 1+f+f²+f³ times the load", func(t *testing.T) {
		assert.InDelta(t, 1.875, steady(1, nil, 0.5, 20*time.Second).load(), 0.02)
	})
	t.Run("a throttle sends K for each one accepted", func(t *testing.T) {
		if raced {
			t.Skip(slowRaced)
		}
		run := runThrottled(1, 1000, longWindow(2), never, 300)
		assert.InDelta(t, 2, run.sentPerAccepted(150, 300), 0.05)
	})
	t.Run("who is large gets what the small leave", func(t *testing.T) {
		if raced {
			t.Skip(slowRaced)
		}
		run := runTenants(1, hundredfold, fairDoors[fairOurs].new)
		assert.InDelta(t, 1000-9*50, run.began[0]/(fairTo-fairFrom), 20)
		lot := runTenants(1, beside, fairDoors[1].new)
		small, _ := lot.small()
		assert.InDelta(t, 50, small, 2)
	})
	t.Run("work that is done before a refusal is gone", func(t *testing.T) {
		// 10 cores, 1 ms of each request; what is left does 49 ms.
		assert.InDelta(t, (10-2)/0.049, runLateAt(1, 1000, ms), 5)
	})
}

func TestPool(t *testing.T) {
	s := sim.New(1)
	p := &pool{sim: s, workers: 2, service: func() int64 { return 10 }, stall: [2]int64{25, 100}}
	var at []int64
	job := func() { at = append(at, s.Now()) }
	for range 5 {
		p.do(job)
	}
	s.At(40, func() { p.do(job) }) // begins when a worker is free
	s.At(50, func() { p.resize(4) })
	s.Run(1000)
	// Two by 10, two by 20; the fifth has 5 left when all stands still; the sixth
	// begins in the stall.
	assert.Equal(t, []int64{10, 10, 20, 20, 105, 110}, at)
}

func TestCores(t *testing.T) {
	s := sim.New(1)
	c := &cores{sim: s, n: 2}
	at := map[string]int64{}
	start := func(name string, work int64) {
		c.do(work*ms, func() { at[name] = (s.Now() + ms/2) / ms })
	}
	start("alone", 10)
	s.At(20*ms, func() { // three on two cores: each gets two thirds
		start("a", 10)
		start("b", 10)
		start("c", 20)
	})
	s.Run(second)
	assert.Equal(t, map[string]int64{"alone": 10, "a": 35, "b": 35, "c": 45}, at)
}

func TestLine(t *testing.T) {
	for name, c := range map[string]struct {
		line line
		want string
	}{
		"no bound":           {line{}, "a b c d"},
		"bound":              {line{bound: 2}, "-d a b c"},
		"bound, drop oldest": {line{bound: 2, dropOldest: true}, "-b a c d"},
		"newest first":       {line{bound: 2, dropOldest: true, newest: true}, "-b a d c"},
		"nobody waits":       {line{bound: -1}, "-b -c -d a"},
		"drop":               {line{drop: over(15)}, "a -c -d b"}, // c and d leave the line with b, which is told last
	} {
		s := sim.New(1)
		l := c.line
		l.sim, l.limit = s, 1
		g := &guarded{&l, &pool{sim: s, workers: 1, service: func() int64 { return 10 }}}
		got := ""
		for _, who := range []string{"a", "b", "c", "d"} {
			g.serve(new(request), func() { got += " " + who }, func() { got += " -" + who })
		}
		s.Run(1000)
		assert.Equal(t, c.want, got[1:], name)
	}
}

func TestQueue(t *testing.T) {
	var q queue[int]
	for i := range 1000 {
		q.push(i)
	}
	for i := range 500 {
		require.Equal(t, i, q.oldest())
		require.Equal(t, 999-i, q.newest())
		require.Equal(t, 998-2*i, q.len())
	}
}

func TestRecovered(t *testing.T) {
	b := perSecond{9, 9, 9, 0, 0, 9, 0, 9, 9, 9}
	good := func(i int) bool { return b[i] == 9 }
	assert.EqualValues(t, 4, b.recovered(3, good))
	assert.EqualValues(t, 0, b.recovered(0, good))
	assert.EqualValues(t, -1, b.recovered(8, good))
	assert.InDelta(t, 4.5, b.mean(2, 6), 1e-9)
	assert.Zero(t, b.mean(10, 20))
}
