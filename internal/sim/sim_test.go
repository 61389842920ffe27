package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOrder(t *testing.T) {
	s := New(1)
	var got []int
	note := func(n int) func() { return func() { got = append(got, n) } }
	s.At(30, note(5))
	s.At(10, func() {
		note(1)()
		s.At(5, note(3)) // has passed: now, after what was planned for now
		s.After(-1, note(4))
	})
	s.At(10, note(2))
	s.At(40, note(6))
	s.Run(40)
	assert.Equal(t, []int{1, 2, 3, 4, 5}, got)
	assert.EqualValues(t, 40, s.Now())
	s.Run(41)
	assert.Equal(t, []int{1, 2, 3, 4, 5, 6}, got, "it goes on")
	s.Run(7)
	assert.EqualValues(t, 41, s.Now(), "and never back")
}

// Whatever the order in which events are planned, they come in order of time.
func TestHeap(t *testing.T) {
	for seed := range uint64(50) {
		s := New(seed)
		n, last := 0, int64(-1)
		for range 200 {
			s.At(s.Rand.Int64N(100), func() {
				n++
				assert.GreaterOrEqual(t, s.Now(), last)
				last = s.Now()
			})
		}
		s.Run(100)
		assert.Equal(t, 200, n)
	}
}

func TestPoisson(t *testing.T) {
	s := New(1)
	var halves [2]int
	s.Poisson(func(now int64) float64 {
		if now >= int64(50*time.Second) {
			return 0
		}
		return 1000
	}, func() { halves[s.Now()/int64(50*time.Second)]++ })
	s.Run(int64(100 * time.Second))
	assert.InDelta(t, 50_000, halves[0], 700) // 3 standard deviations
	assert.LessOrEqual(t, halves[1], 1)

	var sum int64
	for range 100_000 {
		sum += s.Exp(time.Millisecond)
	}
	assert.InDelta(t, float64(time.Millisecond), float64(sum)/100_000, 10_000)
}

func TestSeed(t *testing.T) {
	run := func(seed uint64) (at []int64) {
		s := New(seed)
		s.Poisson(PerSecond(10), func() { at = append(at, s.Now()) })
		s.Run(int64(time.Minute))
		return at
	}
	assert.Equal(t, run(7), run(7))
	assert.NotEqual(t, run(7), run(8))
}

func TestPercentile(t *testing.T) {
	values := []int64{40, 10, 30, 20}
	for p, want := range map[float64]int64{-1: 10, 0: 10, 0.25: 10, 0.26: 20, 0.5: 20, 0.99: 40, 1: 40, 2: 40} {
		assert.Equal(t, want, Percentile(values, p), "%v", p)
	}
	assert.Zero(t, Percentile([]time.Duration(nil), 0.5))
}
