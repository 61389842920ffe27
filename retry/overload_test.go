package retry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/internal/sim"
	"github.com/politehttp/polite/retry"
)

// Models in virtual time, each with ten seeds of which the worst must hold.
var modelSeeds = rounds(10)

var modelStart = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// tally is what came of calls.
type tally struct{ calls, attempts, answered float64 }

func (c tally) load() float64    { return c.attempts / c.calls }
func (c tally) success() float64 { return c.answered / c.calls }

// failingModel is clients that share nothing but a provider that fails a share of the
// attempts, whatever their number.
type failingModel struct {
	*sim.Sim
	policy  retry.Policy
	failing float64
	tally   tally
}

func newFailing(seed uint64, clients int, perSecond float64, budget func() *retry.Budget) *failingModel {
	m := &failingModel{Sim: sim.New(seed), policy: retry.Policy{Base: 20 * time.Millisecond, Cap: 20 * time.Millisecond}}
	for range clients {
		b := budget()
		m.Poisson(sim.PerSecond(perSecond/float64(clients)), func() {
			m.tally.calls++
			b.Called("", m.instant())
			m.attempt(b, 1)
		})
	}
	return m
}

func (m *failingModel) instant() time.Time { return modelStart.Add(time.Duration(m.Now())) }

func (m *failingModel) attempt(b *retry.Budget, n int) {
	m.tally.attempts++
	m.After(int64(5*time.Millisecond), func() {
		switch {
		case m.Rand.Float64() >= m.failing:
			m.tally.answered++
			b.Succeeded("", m.instant())
		case n < 4 && b.Take("", m.instant()):
			m.After(int64(m.policy.Jittered(n, 0, m.Rand.Float64)), func() { m.attempt(b, n+1) })
		}
	})
}

// during runs so long and tells what came of it.
func (m *failingModel) during(d time.Duration) tally {
	m.tally = tally{}
	m.Run(m.Now() + int64(d))
	return m.tally
}

// A thousand calls a second with four attempts each. Where one attempt in ten
// fails, nearly all calls succeed; in a full outage, the retries of its first
// ten seconds are what the budget holds, and from then on one in ten seconds.
func TestBudgetInAModel(t *testing.T) {
	least, most, retries := 1.0, 0.0, 0.0
	for seed := range uint64(modelSeeds) {
		m := newFailing(seed, 1, 1000, func() *retry.Budget { return new(retry.Budget) })
		m.failing = 0.1
		m.during(10 * time.Second)
		c := m.during(20 * time.Second)
		least = min(least, c.success())
		assert.LessOrEqual(t, c.load(), 1.11, "seed %d: load at a tenth", seed)

		m.failing = 0.3
		m.during(5 * time.Second)
		c = m.during(10 * time.Second)
		assert.LessOrEqual(t, c.load(), 1.1, "seed %d: load at three tenths", seed)

		m.failing = 0
		m.during(2 * time.Second)
		m.failing = 1
		c = m.during(10 * time.Second)
		retries = max(retries, c.attempts-c.calls)
		c = m.during(20 * time.Second)
		most = max(most, c.load())
		assert.LessOrEqual(t, c.attempts-c.calls, 3.0, "seed %d: the floor, in twenty seconds of an outage", seed)
	}
	t.Logf("success at a tenth %.2f %%, retries in the first 10 s of an outage %.0f, load then %.4f", 100*least, retries, most)
	assert.GreaterOrEqual(t, least, 0.98, "success at a tenth")
	assert.LessOrEqual(t, retries, 100.0, "retries in the first ten seconds of an outage")
	assert.Less(t, most, 1.001, "load in an outage")

	unbound := newFailing(1, 1, 1000, func() *retry.Budget { return retry.NoBudget })
	unbound.failing = 1
	assert.InDelta(t, 4, unbound.during(20*time.Second).load(), 0.02, "without a budget")
}

// Two hundred calls a second of two, twenty or two hundred clients: however they
// are shared out, each budget sees enough to work with.
func TestBudgetsOfManyClients(t *testing.T) {
	for _, clients := range []int{2, 20, 200} {
		for seed := range uint64(modelSeeds) {
			m := newFailing(seed, clients, 200, func() *retry.Budget { return new(retry.Budget) })
			m.failing = 0.1
			m.during(20 * time.Second)
			c := m.during(20 * time.Second)
			assert.GreaterOrEqual(t, c.success(), 0.98, "%d clients, seed %d", clients, seed)
			assert.LessOrEqual(t, c.load(), 1.14, "%d clients, seed %d", clients, seed)

			m.failing = 1
			m.during(20 * time.Second)
			c = m.during(20 * time.Second)
			floor := float64(clients) * 2 / c.calls // each may retry once in ten seconds
			assert.LessOrEqual(t, c.load(), 1+1.1*floor, "%d clients in an outage, seed %d", clients, seed)
		}
	}
}

// stalled is a server of ten workers that take a thirtieth of a second each, and
// that once do nothing for ten seconds: its queue is then full of callers who
// have given up, and retry (Bronson et al.: "Metastable failures in distributed
// systems", 2021). 280 calls a second come, of which it could serve 300.
type stalled struct {
	*sim.Sim
	dropsExpired bool
	take         func(now time.Time) bool
	called       func(now time.Time)
	succeeded    func(now time.Time)

	stalls bool
	busy   int
	queue  []*wanted
	ok     []int // calls that were answered in time, by the second
}

type wanted struct {
	came  int64
	reply func()
}

const (
	stallWorkers = 10
	stallMean    = time.Second * stallWorkers / 300
	stallPatient = time.Second
	stallBegins  = 30
	stallEnds    = 40
)

func (m *stalled) arrive(w *wanted) {
	m.queue = append(m.queue, w)
	m.work()
}

func (m *stalled) work() {
	for m.busy < stallWorkers && !m.stalls && len(m.queue) > 0 {
		w := m.queue[0]
		m.queue = m.queue[1:]
		if m.dropsExpired && m.Now()-w.came > int64(stallPatient-stallMean) {
			continue // the deadline that it was told leaves no time for it
		}
		m.busy++
		m.After(m.Exp(stallMean), func() {
			m.busy--
			w.reply()
			m.work()
		})
	}
}

func (m *stalled) instant() time.Time { return modelStart.Add(time.Duration(m.Now())) }

func (m *stalled) call(n int) {
	over := false
	m.arrive(&wanted{m.Now(), func() {
		if over {
			return // nobody waits for it
		}
		over = true
		m.succeeded(m.instant())
		m.ok[m.Now()/1e9]++
	}})
	m.After(int64(stallPatient), func() {
		if over {
			return
		}
		over = true
		if n == 1 && m.take(m.instant()) {
			m.After(int64(10*time.Millisecond)+m.Rand.Int64N(int64(100*time.Millisecond)), func() { m.call(2) })
		}
	})
}

// recovery is how many seconds after the stall three in a row are well.
func (m *stalled) recovery(seconds int) int {
	m.ok = make([]int, seconds+1)
	m.Poisson(sim.PerSecond(280), func() {
		m.called(m.instant())
		m.call(1)
	})
	m.At(int64(stallBegins*time.Second), func() { m.stalls = true })
	m.At(int64(stallEnds*time.Second), func() { m.stalls = false; m.work() })
	m.Run(int64(seconds) * int64(time.Second))
	for second := stallEnds; second+3 <= seconds; second++ {
		if min(m.ok[second], m.ok[second+1], m.ok[second+2]) >= 252 {
			return second - stallEnds
		}
	}
	return seconds
}

// The budget and a server that drops what is not worth its time any more,
// because it was told, come back within 15 s; neither alone does.
func TestBudgetAfterAStall(t *testing.T) {
	model := func(seed uint64, budget, drops bool) *stalled {
		m := &stalled{
			Sim: sim.New(seed), dropsExpired: drops,
			take: func(time.Time) bool { return true }, called: func(time.Time) {}, succeeded: func(time.Time) {},
		}
		if budget {
			b := new(retry.Budget)
			m.take = func(now time.Time) bool { return b.Take("", now) }
			m.called = func(now time.Time) { b.Called("", now) }
			m.succeeded = func(now time.Time) { b.Succeeded("", now) }
		}
		return m
	}
	worst := 0
	for seed := range uint64(modelSeeds) {
		worst = max(worst, model(seed, true, true).recovery(120))
	}
	t.Logf("with both, %d s after the stall at worst", worst)
	assert.LessOrEqual(t, worst, 15, "seconds")

	assert.Equal(t, 120, model(1, false, false).recovery(120), "unprotected it never recovers")
	assert.Greater(t, model(1, false, true).recovery(120), 30, "dropping alone takes long")
	assert.Greater(t, model(1, true, false).recovery(120), 60, "and the budget alone takes longer")
}
