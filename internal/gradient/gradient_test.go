package gradient

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFields(t *testing.T) {
	for _, c := range []struct {
		limit          Limit
		min, max, from int
	}{
		{Limit{}, 1, 1000, 20},
		{Limit{Min: -1, Max: -1, Initial: -1}, 1, math.MaxInt32, 1},
		{Limit{Min: 8, Max: 12}, 8, 12, 12},
		{Limit{Min: 32}, 32, 1000, 32},
		{Limit{Min: 2000}, 2000, 2000, 2000},
		{Limit{Min: math.MaxInt, Max: math.MaxInt, Initial: math.MaxInt}, math.MaxInt32, math.MaxInt32, math.MaxInt32},
		{Limit{Min: 5, Max: 5}, 5, 5, 5},
		{Limit{Min: math.MinInt, Max: math.MinInt, Initial: math.MinInt}, 1, math.MaxInt32, 1},
	} {
		assert.Equal(t, c.from, c.limit.Limit())
		assert.Equal(t, c.min, int(c.limit.min))
		assert.Equal(t, c.max, int(c.limit.max))
	}
}

// feed gives a limit samples as of a server that has a queue beyond its workers,
// so many in flight on average, for a while.
func feed(l *Limit, from, until, each time.Duration, rtt time.Duration, inFlight int, dropped bool) {
	for at := from; at < until; at += each {
		l.Sample(int64(at), int64(rtt), inFlight, dropped)
	}
}

func TestFewInFlightDoNotMoveIt(t *testing.T) {
	for name, tell := range map[string]func(*Limit){
		"quick":         func(l *Limit) { feed(l, sec, minute, ms, ms, 19, false) },
		"slow":          func(l *Limit) { feed(l, sec, minute, ms, sec, 19, false) },
		"slower":        func(l *Limit) { feed(l, sec, 10*sec, ms, ms, 19, false); feed(l, 10*sec, minute, ms, sec, 19, false) },
		"all dropped":   func(l *Limit) { feed(l, sec, minute, ms, ms, 19, true) },
		"nothing known": func(*Limit) {},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Limit{Initial: 40}
			tell(l)
			assert.Equal(t, 40, l.Limit())
		})
	}
}

// A limit that nobody reaches is not raised: that would bring nothing.
func TestNotReachedDoesNotGrow(t *testing.T) {
	l := &Limit{Initial: 40}
	feed(l, sec, minute, ms, ms, 34, false)
	assert.Equal(t, 40, l.Limit())
	feed(l, minute, minute+5*sec, ms, ms, 40, false)
	assert.Greater(t, l.Limit(), 40)
}

// Nor is one that brings no more throughput, whatever latency says.
func TestNoMoreThroughputDoesNotGrow(t *testing.T) {
	l := &Limit{Initial: 20}
	for at := sec; at < 5*minute; at += ms {
		l.Sample(int64(at), int64(10*ms), l.Limit(), false)
	}
	assert.LessOrEqual(t, l.Limit(), 32)
}

// A window with 5 % dropped or more costs a tenth, however many they are; less
// costs nothing (oumi#2508).
func TestDropped(t *testing.T) {
	l := &Limit{Initial: 100}
	for i := range 300 {
		l.Sample(int64(sec)+int64(i)*int64(ms), int64(10*ms), 100, i%10 == 0)
	}
	assert.Equal(t, 90, l.Limit(), "one window")
	for i := range 5000 {
		rtt := int64(10 * ms)
		if i%25 == 0 {
			rtt = 1
		}
		l.Sample(int64(minute)+int64(i)*int64(ms), rtt, 90, i%25 == 0)
	}
	assert.Equal(t, int64(10*ms), int64(l.base), "what was dropped at once was not quick")
	l = &Limit{Initial: 100}
	feed(l, sec, 3*minute, ms, ms, 100, true)
	assert.Equal(t, 1, l.Limit())
	feed(l, 3*minute, 3*minute+10*sec, ms, ms, 1, false)
	assert.Greater(t, l.Limit(), 1, "it recovers")
}

// What is seen is evaluated as samples and time come, whoever they belong to: a
// trickle recovers, too, and what happened before a long silence is forgotten
// (SlimFaas#344).
func TestTrickleAndSilence(t *testing.T) {
	l := &Limit{Initial: 2}
	feed(l, sec, 3*minute, 500*ms, 400*ms, 2, false)
	assert.Greater(t, l.Limit(), 2)
	before := l.Limit()
	feed(l, time.Hour, time.Hour+50*ms, ms, 10*sec, before, false)
	assert.Equal(t, before, l.Limit(), "50 ms say nothing")
}

func TestClockSteps(t *testing.T) {
	large(t)
	for name, step := range map[string]time.Duration{
		"back an hour":   -time.Hour,
		"back 2 s":       -2 * sec,
		"back 100 ms":    -100 * ms,
		"on a second":    sec,
		"on an hour":     time.Hour,
		"on a century":   100 * 365 * 24 * time.Hour,
		"back a century": -100 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(1, 20, 50*ms, 600, &stepped{limit: &Limit{Min: 4}, step: step})
			p := h.run(130*sec).phase(100*sec, 130*sec)
			assert.GreaterOrEqual(t, p.goodput/possible(p), 0.96)
			assert.LessOrEqual(t, p.high, 56)
		})
	}
}

// stepped is a limit whose clock is set at 100 s.
type stepped struct {
	limit *Limit
	step  time.Duration
}

func (s *stepped) Limit() int { return s.limit.Limit() }

func (s *stepped) Sample(now, rtt int64, inFlight int, dropped bool) {
	if now >= int64(100*sec) {
		now += int64(s.step)
	}
	s.limit.Sample(now, rtt, inFlight, dropped)
}

func TestMemory(t *testing.T) {
	l := &Limit{Min: 4}
	now := int64(0)
	assert.Zero(t, testing.AllocsPerRun(10000, func() {
		now += int64(ms)
		l.Sample(now, int64(50*ms), 20, false)
		l.Limit()
	}))
}

// check gives a limit one sample and looks whether it is sound.
func check(t *testing.T, l *Limit, now, rtt int64, inFlight int, dropped bool) {
	l.Sample(now, rtt, inFlight, dropped)
	n := l.Limit()
	sound := n >= int(l.min) && n <= int(l.max) && l.base <= l.plain
	for _, f := range []float64{l.limit, l.high, l.base, l.plain, l.last, l.probe.due, l.yield.rate, l.yield.limit} {
		sound = sound && !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	if !sound {
		require.Fail(t, "not sound", "after %d, %d, %d, %v: %+v", now, rtt, inFlight, dropped, *l)
	}
}

func TestAnySamples(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := &Limit{Min: random.IntN(8), Max: random.IntN(2000) - 1, Initial: random.IntN(100), Seed: seed}
		now, rtt := random.Int64N(1e18), float64(ms)
		for range 5000 {
			now += int64(random.ExpFloat64() * 1e7)
			if random.IntN(500) == 0 {
				now += random.Int64N(2e13) - 1e13
			}
			rtt = min(max(rtt*math.Exp(0.3*random.NormFloat64()), 1), 1e13)
			inFlight := l.Limit() - random.IntN(3)
			if random.IntN(4) == 0 {
				inFlight = random.IntN(1 << 20)
			}
			check(t, l, now, int64(rtt*random.ExpFloat64()), inFlight, random.IntN(50) == 0)
		}
	}
}

func FuzzLimit(f *testing.F) {
	f.Add(1, 100, 20, uint64(1), []byte("01234567890123456789012345678901234567890123456789"))
	f.Add(0, 0, 0, uint64(0), []byte{255, 255, 255, 255, 255, 255, 255, 127, 0, 0, 0, 0, 0, 0, 0, 128, 1})
	f.Fuzz(func(t *testing.T, least, most, initial int, seed uint64, samples []byte) {
		l := &Limit{Min: least, Max: most, Initial: initial, Seed: seed}
		for len(samples) >= 17 {
			now := int64(binary.LittleEndian.Uint64(samples))
			rtt := int64(binary.LittleEndian.Uint64(samples[8:]))
			b := samples[16]
			samples = samples[17:]
			for i := range int64(16) { // enough for a window
				check(t, l, now+i*int64(b)*int64(ms), rtt>>(i&3), int(b)*l.Limit()/64, b&1 == 0)
			}
		}
	})
}

func BenchmarkSample(b *testing.B) {
	b.ReportAllocs()
	l := &Limit{Min: 4}
	now := int64(1)
	for b.Loop() {
		now += 1e5
		l.Sample(now, 50e6, 20, false)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		_ = time.Now()
	}
}
