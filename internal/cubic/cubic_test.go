package cubic

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/provider"
)

func TestLearnNginx(t *testing.T) {
	for _, rtt := range []time.Duration{200 * time.Microsecond, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		for seed := range uint64(rounds(10)) {
			m := (&model{
				workers: 16, jobs: 200, attempts: 10, base: 500 * time.Millisecond,
				rtt: rtt, seed: seed, provider: &provider.LeakyExcess{Quota: provider.Quota{First: 20}, Burst: 5},
			}).run()
			ok, refused := m.between(2*time.Second, time.Hour)
			assert.Zero(t, m.failed, "rtt %v seed %d", rtt, seed)
			assert.Equal(t, 200, m.done)
			assert.LessOrEqual(t, refused/(ok+refused), 0.03, "rtt %v seed %d: %v refused after the second second", rtt, seed, refused)
			assert.Less(t, m.elapsed, 11*time.Second, "rtt %v seed %d", rtt, seed)
		}
	}
}

// Fifty workers, 10 ms away, at a limit of 100 a second that is raised to 400,
// whenever that is on the curve.
func TestLearnFindsTheLimit(t *testing.T) {
	for name, of := range map[string]func(provider.Quota) provider.Provider{
		"tokens of 50 ms":   func(q provider.Quota) provider.Provider { return &provider.Tokens{Quota: q, Holds: 0.05} },
		"tokens of 100 ms":  func(q provider.Quota) provider.Provider { return &provider.Tokens{Quota: q, Holds: 0.1} },
		"tokens of 1 s":     func(q provider.Quota) provider.Provider { return &provider.Tokens{Quota: q, Holds: 1} },
		"tokens of 10 s":    func(q provider.Quota) provider.Provider { return &provider.Tokens{Quota: q, Holds: 10} },
		"window of 1 s":     func(q provider.Quota) provider.Provider { return &provider.ClockWindow{Quota: q} },
		"sliding over 1 s":  func(q provider.Quota) provider.Provider { return &sliding{Quota: q} },
		"leaky as in nginx": func(q provider.Quota) provider.Provider { return &provider.LeakyExcess{Quota: q, Burst: 10} },
	} {
		t.Run(name, func(t *testing.T) {
			learn := func(change time.Duration, seed uint64) *model {
				return (&model{
					workers: 50, rtt: 10 * time.Millisecond, end: change + 20*time.Second, seed: seed,
					provider: of(provider.Quota{First: 100, Then: 400, Change: change}),
				}).run()
			}
			m := learn(120*time.Second, 1)
			first, _ := m.between(0, 5*time.Second)
			assert.GreaterOrEqual(t, first, 5*70.0, "in the first five seconds")
			ok, refused := m.between(5*time.Second, 120*time.Second)
			assert.GreaterOrEqual(t, ok, 0.95*100*115, "use")
			assert.LessOrEqual(t, refused/(ok+refused), 0.01, "refused")

			for i := range rounds(3) { // at any phase of the curve
				change := 30*time.Second + time.Duration(i)*2*time.Second
				m := learn(change, uint64(i))
				found := time.Duration(0)
				for d := time.Second; d <= 20*time.Second && found == 0; d += 100 * time.Millisecond {
					if n, _ := m.between(change+d-time.Second, change+d); n >= 0.9*400 {
						found = d
					}
				}
				assert.NotZero(t, found)
				assert.LessOrEqual(t, found, 10*time.Second, "to find the raised limit")
				ok, refused := m.between(change+12*time.Second, change+20*time.Second)
				assert.GreaterOrEqual(t, ok, 0.93*400*8, "use of the raised limit")
				assert.LessOrEqual(t, refused/(ok+refused), 0.01, "refused by the raised limit")
			}
		})
	}
}

// Per call a slow provider is probed no more often than a fast one.
func TestLearnSlowProvider(t *testing.T) {
	m := (&model{
		workers: 4, rtt: 50 * time.Millisecond, end: 30 * time.Minute,
		provider: &provider.Tokens{Quota: provider.Quota{First: 1}, Holds: 5},
	}).run()
	ok, refused := m.between(time.Minute, 30*time.Minute)
	assert.LessOrEqual(t, refused/(ok+refused), 0.03)
	assert.GreaterOrEqual(t, ok, 0.95*29*60)
}

func TestLearnProviderShutForAMinute(t *testing.T) {
	m := (&model{
		workers: 50, rtt: 10 * time.Millisecond, end: 200 * time.Second,
		provider: &shut{&provider.Tokens{Quota: provider.Quota{First: 100}, Holds: 1}, 40 * time.Second, 100 * time.Second},
	}).run()
	_, refused := m.between(40*time.Second, 100*time.Second)
	assert.LessOrEqual(t, refused, 150.0, "of the calls while it was shut")
	_, refused = m.between(50*time.Second, 100*time.Second)
	assert.LessOrEqual(t, refused, 26.0, "down to one in two seconds")
	ok, _ := m.between(120*time.Second, 140*time.Second)
	assert.GreaterOrEqual(t, ok, 0.95*100*20, "twenty seconds later")
}

// One call in ten seconds and one refusal: nobody waits, and it is forgotten.
func TestLearnStrayRefusal(t *testing.T) {
	m := &model{
		workers: 1, jobs: 60, think: 10 * time.Second, rtt: 50 * time.Millisecond, end: time.Hour,
		provider: &shut{&provider.Tokens{Quota: provider.Quota{First: 1000}, Holds: 1}, 95 * time.Second, 105 * time.Second},
	}
	m.run()
	assert.Equal(t, 1, m.failed)
	assert.False(t, m.l.On())
	assert.Less(t, m.elapsed, 600*time.Second, "no call waited for its turn")

	// A batch that comes a minute after the refusal is not held up for long.
	m = &model{
		workers: 20, jobs: 1000, rtt: 50 * time.Millisecond, end: time.Hour,
		provider: &provider.Tokens{Quota: provider.Quota{First: 1000}, Holds: 1},
	}
	m.l.Answer(-60e9, true)
	m.l.Answer(-50e9, false)
	m.run()
	assert.Zero(t, m.failed)
	assert.Less(t, m.elapsed, 12*time.Second)
}

// A tenth of the calls end without an answer.
func TestLearnLostAnswers(t *testing.T) {
	m := (&model{
		workers: 50, rtt: 10 * time.Millisecond, end: 300 * time.Second, lose: 0.1,
		provider: &provider.Tokens{Quota: provider.Quota{First: 100}, Holds: 1},
	}).run()
	ok, refused := m.between(10*time.Second, 300*time.Second)
	assert.LessOrEqual(t, refused/(ok+refused), 0.02)
	assert.GreaterOrEqual(t, ok, 0.95*100*290)
}

func TestLearnUnits(t *testing.T) {
	m := (&model{
		workers: 50, rtt: 10 * time.Millisecond, end: 120 * time.Second, units: 5,
		provider: &provider.Tokens{Quota: provider.Quota{First: 100}, Holds: 1}, // calls
	}).run()
	ok, refused := m.between(10*time.Second, 120*time.Second)
	assert.LessOrEqual(t, refused/(ok+refused), 0.01)
	assert.GreaterOrEqual(t, ok, 0.95*100*110)
	assert.InDelta(t, 500, m.l.Rate(), 100)
}

const msec = int64(time.Millisecond)

func TestLearnStartsFromWhatWasAccepted(t *testing.T) {
	var l Learner
	l.Answer(0, true)
	require.True(t, l.On())
	assert.Equal(t, leastRate, l.Rate(), "nothing known")

	l = Learner{}
	for range 6 { // a burst of 16
		l.Answer(msec, false)
	}
	for range 9 {
		l.Answer(msec, true)
	}
	assert.Equal(t, 6.0, l.Rate())
	l.Answer(2*msec, true)
	assert.Equal(t, 6.0, l.Rate(), "the burst is one event")

	l = Learner{} // the same, but the first refusal overtook the others
	l.Answer(msec, true)
	for range 6 {
		l.Answer(2*msec, false)
	}
	assert.Equal(t, 6.0, l.Rate())

	l = Learner{} // the same after an hour in which little happened
	l.Answer(0, false)
	for range 6 {
		l.Answer(3600e9, false)
	}
	l.Answer(3600e9, true)
	assert.Equal(t, 6.0, l.Rate())

	l = Learner{}
	for i := range int64(500) {
		l.Answer(i*10*msec, false)
	}
	l.Answer(5000*msec, true)
	assert.InDelta(t, 70, l.Rate(), 1, "100 a second for five seconds")
}

func TestLearnStartsFromTheConfiguredRate(t *testing.T) {
	// accepted is how many a second, in each half of one, before the refusal.
	start := func(given float64, accepted ...int) float64 {
		l := Learner{Given: given}
		now := int64(0)
		for _, n := range accepted {
			for range n / 2 {
				l.Answer(now, false)
				now += int64(1e9) / int64(n)
			}
		}
		l.Answer(now, true)
		return l.Rate()
	}
	for _, c := range []struct {
		name     string
		want     float64
		given    float64
		accepted []int
	}{
		{"nothing is measured", 14, 20, nil},
		{"less than a second", 70, 100, []int{50}},
		{"steady, and less than configured", 35, 100, []int{50, 50, 50}},
		{"steady, and more", 70, 100, []int{200, 200, 200}},
		{"rises", 70, 100, []int{10, 20, 60}},
		{"falls", 70, 100, []int{60, 20, 20}},
		{"too few to tell", 70, 100, []int{4, 4, 4, 4}},
		{"slower than the slowest", 0.5, 0.1, nil},
	} {
		assert.InDelta(t, c.want, start(c.given, c.accepted...), 0.02*c.want, c.name)
	}
	// A pause before the refusal is no lower rate.
	l := Learner{Given: 100}
	for i := range int64(150) {
		l.Answer(i*10*msec, false)
	}
	l.Answer(1900*msec, true)
	assert.Equal(t, 70.0, l.Rate())
}

// A learnt rate that has grown past the configured one was never let out: the
// next refusal cuts from the configured one.
func TestLearnCutsFromTheConfiguredRate(t *testing.T) {
	l := Learner{Given: 20}
	l.Answer(0, true)
	now := int64(0)
	for l.Rate() < 100 {
		now += 50 * msec
		l.Sent(now, 1)
		l.Answer(now, false)
	}
	l.Answer(now, true)
	assert.InDelta(t, 14, l.Rate(), 0.2)
	for range 2 { // shut
		now += 300 * msec
		l.Answer(now, true)
	}
	assert.InDelta(t, 14*0.7*0.7, l.Rate(), 0.2)
}

func TestLearnOneCutPerEvent(t *testing.T) {
	var l Learner
	now := int64(0)
	for range 500 {
		now += 10 * msec
		l.Answer(now, false)
	}
	l.Answer(now, true)
	for range 20 { // calls that take a second
		now += 20 * msec
		l.Sent(now, 1)
	}
	was := l.Rate()
	now += 400 * msec
	l.Answer(now, true)
	cut := l.Rate()
	require.InDelta(t, 0.7*was, cut, 0.16*was)
	for range 19 {
		now += 20 * msec
		l.Answer(now, true)
	}
	assert.Equal(t, cut, l.Rate(), "had left before the cut")
	l.Sent(now, 1)
	now += 100 * msec
	l.Answer(now, true)
	assert.Less(t, l.Rate(), cut, "left after it")
}

// Calls that never get an answer must not hide refusals for ever, nor pass for
// a long round trip.
func TestLearnGivesLostAnswersUp(t *testing.T) {
	var l Learner
	l.Answer(0, true)
	now := int64(300 * msec)
	for range 1000 { // all lost
		now += msec
		l.Sent(now, 1)
	}
	assert.LessOrEqual(t, l.flying, 3)
	l.Answer(now, false)
	l.Sent(now, 1)
	l.Answer(now, true) // cuts: two are lost yet
	require.Positive(t, l.stale)
	cut := l.cutAgo
	now += 2500 * msec
	l.Sent(now, 1)
	l.Answer(now, true)
	assert.Less(t, l.cutAgo, 2.5+cut, "news again")
	assert.Zero(t, l.cutAgo)
}

// learned returns a learner at 70 a second after a limit of 100, and its now.
func learned() (l *Learner, now int64) {
	l = new(Learner)
	for range 500 {
		now += 10 * msec
		l.Answer(now, false)
	}
	l.Answer(now, true)
	return l, now
}

// A rate that nobody uses does not grow.
func TestLearnGrowsByUse(t *testing.T) {
	l, now := learned()
	idle := l.Rate()
	for range 20 {
		now += 10e9
		l.Sent(now, 1)
		l.Answer(now, false)
	}
	assert.InDelta(t, idle, l.Rate(), 0.2*idle, "one call in ten seconds")

	l, now = learned()
	for range 20 * 100 {
		now += 10 * msec
		l.Sent(now, 1)
		l.Answer(now, false)
	}
	assert.Greater(t, l.Rate(), 3*idle, "used for twenty seconds")
}

// A burst that was cut short says little of the rate, however many it was.
func TestLearnBurstIsNoRate(t *testing.T) {
	var l Learner
	for range 12 {
		l.Answer(0, false)
	}
	l.Answer(0, true)
	assert.Equal(t, 12.0, l.Rate())
	for now := 300 * msec; now < 3000*msec; now += int64(1e9 / l.Rate()) {
		l.Sent(now, 1)
		l.Answer(now, false)
	}
	assert.Greater(t, l.Rate(), 300.0)
}

// The bounds of K: at 2,000 a second the RFC's would take too long.
func TestLearnFindsAFastLimit(t *testing.T) {
	large(t)
	const change = 20 * time.Second
	m := (&model{
		workers: 200, rtt: 10 * time.Millisecond, end: change + 12*time.Second,
		provider: &provider.Tokens{Quota: provider.Quota{First: 2000, Then: 8000, Change: change}, Holds: 1},
	}).run()
	n, _ := m.between(change+9*time.Second, change+10*time.Second)
	assert.GreaterOrEqual(t, n, 0.9*8000)
}

func TestLearnForgets(t *testing.T) {
	var l Learner
	l.Answer(0, true)
	l.Answer(299e9, false)
	assert.True(t, l.On())
	l.Answer(300e9, false)
	assert.False(t, l.On())

	l.Answer(300e9, true)
	l.Answer(500e9, true)
	l.Answer(799e9, false)
	assert.True(t, l.On(), "counted from the last refusal")
}

// Whatever the clock and the provider do, the rate is one that can be kept.
func TestLearnStaysInBounds(t *testing.T) {
	property := func(seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := Learner{Given: max(0, 1000*rng.NormFloat64())}
		now := int64(0)
		for range 2000 {
			switch d := rng.Int64N(int64(time.Second)); rng.IntN(20) {
			case 0:
				now -= 3600 * d
			case 1:
				now += 200 * d
			case 2, 3, 4:
			default:
				now += d >> rng.IntN(30)
			}
			if rng.IntN(2) == 0 {
				l.Sent(now, 1+rng.Int64N(1000))
			} else {
				l.Answer(now, rng.IntN(10) == 0)
			}
			if l.On() && (math.IsNaN(l.Rate()) || l.Rate() < leastRate || l.Rate() > mostRate) {
				t.Logf("seed %d: %+v", seed, l)
				return false
			}
		}
		return true
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 100}))
}

func BenchmarkLearn(b *testing.B) {
	for name, armed := range map[string]bool{"off": false, "on": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var l Learner
			now := int64(0)
			if armed {
				l.Answer(now, true)
			}
			for i := 0; b.Loop(); i++ {
				now += msec
				l.Sent(now, 1)
				l.Answer(now, armed && i%1000 == 999)
			}
		})
	}
}
