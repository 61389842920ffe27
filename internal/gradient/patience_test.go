package gradient

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhoGivesUpTookLonger: how long requests take is found whenever clients lose
// patience, as long as some wait for the end.
func TestWhoGivesUpTookLonger(t *testing.T) {
	for _, patience := range []float64{10, 1, .3, .1} { // times what they take on average
		random := rand.New(rand.NewPCG(1, 2))
		var w window
		w.begin(0, 0)
		for range 20_000 {
			took := random.ExpFloat64() * 50e6
			if left := random.ExpFloat64() * patience * 50e6; left < took {
				w.add(1e9, left, 10, abandoned)
			} else {
				w.add(1e9, took, 10, ok)
			}
		}
		v := w.view()
		assert.InEpsilon(t, 50e6, v.rtt, .04, "patience %v", patience)
		assert.InDelta(t, 50e6, v.rtt, 3*v.err, "patience %v", patience)
		assert.Less(t, v.err, 2e6)
		assert.LessOrEqual(t, v.took, v.rtt)
	}
}

// TestWhoLeavesAtOnceSaysNothing: a flood of such changes no latency.
func TestWhoLeavesAtOnceSaysNothing(t *testing.T) {
	var w window
	w.begin(0, 0)
	for i := range 1000 {
		w.add(1e9, 1, 10, abandoned)
		if i%10 == 0 {
			w.add(1e9, 50e6, 10, ok)
		}
	}
	assert.InEpsilon(t, 50e6, w.view().rtt, 1e-6)
}

// TestNobodyWaitsForTheEnd: the limit falls, and in a probe it does not return.
func TestNobodyWaitsForTheEnd(t *testing.T) {
	for _, probing := range []bool{false, true} {
		l := &Limit{Initial: 100}
		now := int64(second)
		window := func(inFlight int) {
			for range 300 {
				now += second / 100
				l.GaveUp(now, second/2, inFlight)
			}
		}
		window(100)
		if probing {
			l.probe.on, l.probe.top, l.probe.from = true, 200, 200
		}
		window(100)
		assert.Less(t, l.Limit(), 75)
		for range 10 {
			window(l.Limit())
		}
		assert.Equal(t, 1, l.Limit())
		assert.Zero(t, l.base, "and nothing is learnt")

		for range 20 { // then all do, and all are quick
			for range 300 {
				now += second / 1000
				l.Sample(now, second/100, l.Limit(), false)
			}
		}
		assert.Greater(t, l.Limit(), 2)
	}
	l := &Limit{Initial: 100}
	for i := range int64(1000) {
		l.GaveUp(i*second/100, second/2, 10)
	}
	assert.Equal(t, 100, l.Limit(), "so few say nothing about what would be too many")
}
