package breaker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/internal/sim"
)

// throttledModel is twenty clients, each with a Throttle of its own, and a provider
// that accepts so many calls a second and refuses the others at once.
type throttledModel struct {
	*sim.Sim
	capacity float64 // calls a second; zero: it is down
	tokens   float64 // it holds a tenth of a second
	filled   int64

	asked, sent, accepted []int // in each second
}

const throttledClients = 20

var modelStart = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newThrottled(seed uint64, offered float64, settings *Throttle) *throttledModel {
	m := &throttledModel{Sim: sim.New(seed), capacity: 100, tokens: 10}
	for range throttledClients {
		client := &Throttle{K: settings.K, Window: settings.Window, MaxReject: settings.MaxReject, PassEvery: settings.PassEvery}
		m.Poisson(sim.PerSecond(offered/throttledClients), func() { m.call(client) })
	}
	return m
}

func (m *throttledModel) instant() time.Time { return modelStart.Add(time.Duration(m.Now())) }

func (m *throttledModel) call(client *Throttle) {
	m.count(&m.asked)
	pass, err := client.Enter(host, m.instant(), m.Rand.Float64())
	if err != nil {
		return
	}
	m.count(&m.sent)
	m.tokens = min(m.capacity/10, m.tokens+m.capacity*float64(m.Now()-m.filled)/1e9)
	m.filled = m.Now()
	outcome := Throttled
	if m.tokens >= 1 {
		m.tokens--
		outcome = Success
		m.count(&m.accepted)
	}
	m.After(int64(10*time.Millisecond), func() { pass.Done(outcome, m.instant()) })
}

func (m *throttledModel) count(seconds *[]int) {
	for int64(len(*seconds)) <= m.Now()/1e9 {
		*seconds = append(*seconds, 0)
	}
	(*seconds)[m.Now()/1e9]++
}

// during sums up seconds [from, to).
func during(seconds []int, from, to int) (n float64) {
	for second := from; second < min(to, len(seconds)); second++ {
		n += float64(seconds[second])
	}
	return n
}

// throttleSeeds is how many runs there are, of which the worst must hold. The
// models have no goroutines, so the race detector finds nothing in them.
func throttleSeeds() uint64 {
	if raceEnabled {
		return 1
	}
	return 10
}

// Ten times the load that the provider takes: it is sent K calls for each that
// it accepts, and goes on at its capacity.
func TestThrottleSendsKForEachAccepted(t *testing.T) {
	for _, k := range []float64{2, 1.5} {
		for _, window := range []time.Duration{10 * time.Second, 2 * time.Minute} {
			t.Run(fmt.Sprint("K ", k, " over ", window), func(t *testing.T) {
				if raceEnabled && window > time.Minute {
					t.Skip("simulates much in one goroutine: without -race")
				}
				seeds := throttleSeeds()
				if window > time.Minute {
					seeds = min(seeds, 2)
				}
				for seed := range seeds {
					m := newThrottled(seed, 1000, &Throttle{K: k, Window: window, MaxReject: 1})
					from := int(2 * window / time.Second)
					m.Run(int64(4 * window))
					sent, accepted := during(m.sent, from, 2*from), during(m.accepted, from, 2*from)
					assert.InDelta(t, k, sent/accepted, 0.08, "seed %d: sent %v, accepted %v", seed, sent, accepted)
					assert.GreaterOrEqual(t, accepted/float64(from), 0.97*m.capacity, "seed %d: accepted a second", seed)
				}
			})
		}
	}
}

// With the defaults, where MaxReject bounds what is refused: sent is the greater
// of K for each accepted and a tenth of what is asked.
func TestThrottleInAnOverload(t *testing.T) {
	for seed := range throttleSeeds() {
		m := newThrottled(seed, 1000, &Throttle{})
		m.Run(int64(60 * time.Second))
		sent, accepted := during(m.sent, 20, 60), during(m.accepted, 20, 60)
		assert.InDelta(t, 2, sent/accepted, 0.1, "seed %d", seed)
	}
}

// A provider with room is refused nothing, not one call, bursts or not.
func TestThrottleRefusesNothingBelowCapacity(t *testing.T) {
	for seed := range throttleSeeds() {
		m := newThrottled(seed, 90, &Throttle{})
		m.Run(int64(5 * time.Minute))
		assert.Equal(t, during(m.asked, 0, 300), during(m.sent, 0, 300), "seed %d", seed)
		assert.Less(t, during(m.accepted, 0, 300), during(m.asked, 0, 300), "seed %d: bursts are refused by the provider", seed)
	}
}

// A minute in which the provider accepts nothing: a tenth of the calls goes on
// to find out, and within 20 s of its end 95 % of the calls succeed, for good.
func TestThrottleComesBackAfterAnOutage(t *testing.T) {
	const begins, ends = 60, 120
	worst := 0
	for seed := range throttleSeeds() {
		m := newThrottled(seed, 90, &Throttle{})
		m.At(int64(begins*time.Second), func() { m.capacity, m.tokens = 0, 0 })
		m.At(int64(ends*time.Second), func() { m.capacity, m.filled = 100, m.Now() })
		m.Run(int64(240 * time.Second))

		share := during(m.sent, begins+20, ends) / during(m.asked, begins+20, ends)
		assert.InDelta(t, 0.2, share, 0.1, "seed %d: of the calls that were sent on during the outage", seed)
		worst = max(worst, m.recovered(ends, 0.95))
	}
	t.Logf("95 %% of the calls succeed %d s after the outage, at worst", worst)
	assert.LessOrEqual(t, worst, 20, "seconds to 95 %% success")
}

// recovered is the first of the seconds after an end from which on three in a
// row have so much success.
func (m *throttledModel) recovered(end int, share float64) int {
	for second := end; second+3 <= len(m.accepted); second++ {
		well := true
		for i := second; i < second+3; i++ {
			well = well && float64(m.accepted[i]) >= share*float64(m.asked[i])
		}
		if well {
			return second - end
		}
	}
	return len(m.accepted)
}
