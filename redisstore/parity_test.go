package redisstore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// model is what a limiter.Memory would decide on one limit and key: the same
// rule, by a clock that the test sets. In nanoseconds, or in microseconds where
// numbers change, as parts of a unit are then rounded to what a rule can tell.
type model struct {
	limit *limiter.Limit
	rule  *rule.Rule
	tick  int64 // of the rule: this many are a microsecond
	state rule.State
	long  *rule.History
	first int64 // when anything was first charged to long, at the latest
}

// modelOf makes the rule of a limit anew.
func modelOf(t *testing.T, l *limiter.Limit, tick int64) *model {
	t.Helper()
	r, err := nanoRule(l)
	if tick == 1 && l.Kind() != "calendar" {
		r, err = micros(l)
	} else {
		tick = 1000
	}
	require.NoError(t, err)
	return &model{limit: l, rule: r, tick: tick, long: &rule.History{}, first: math.MaxInt64}
}

func nanoRule(l *limiter.Limit) (*rule.Rule, error) {
	switch l.Kind() {
	case "fixed_window":
		return rule.NewFixedWindow(l.Quota(), int64(l.Window()), rule.Align(l.Align()))
	case "sliding_counter":
		return rule.NewSlidingCounter(l.Quota(), int64(l.Window()))
	case "sliding_log":
		return rule.NewSlidingLog(l.Quota(), int64(l.Window()))
	case "sliding_buckets":
		return rule.NewSlidingBuckets(l.Quota(), int64(l.Window()), l.Cells())
	case "calendar":
		period, zone := l.Calendar()
		return rule.NewCalendar(l.Quota(), period == limiter.Month, zone)
	}
	return rule.NewBucket(kinds[l.Kind()], l.Rate().Count, int64(l.Rate().Per), l.Quota())
}

// at returns a time in microseconds as the rule counts it.
func (m *model) at(now int64, key string) int64 {
	if m.limit.Align() != limiter.ToClockPerKey {
		return now * m.tick
	}
	r, _ := nanoRule(m.limit)
	return now*m.tick + r.Shift(key)*m.tick/1000
}

// ask returns the verdict; keep makes it so, which for cost 0 changes nothing.
func (m *model) ask(key string, now, cost int64) (v rule.Verdict, keep func()) {
	now = m.at(now, key)
	if m.rule.Long() {
		return m.rule.Ask(m.long, now, cost), func() {
			m.first = min(m.first, now)
			m.rule.Charge(m.long, now, cost)
		}
	}
	next, v := m.rule.Take(m.state, now, cost)
	return v, func() {
		if cost > 0 {
			m.state = next
		}
	}
}

// forgets says that a History has entries that have expired. It drops them when
// it is asked, a value when it is written: a step back of the clock would show.
func (m *model) forgets(now int64) bool {
	return m.rule.Long() && m.first+m.rule.Window() <= now*m.tick && m.first < math.MaxInt64
}

func (m *model) refund(key string, now, cost int64) {
	now = m.at(now, key)
	if m.rule.Long() {
		m.rule.Return(m.long, now, cost)
	} else {
		m.state = m.rule.Refund(m.state, now, cost)
	}
}

// replace makes the model one of another limit.
func (m *model) replace(t *testing.T, l *limiter.Limit, key string, now int64) {
	n := modelOf(t, l, 1)
	at, oldAt := n.at(now, key), m.at(now, key)
	if at == oldAt {
		n.state, n.long = n.rule.Carry(m.rule, m.state, m.long, at)
	} else {
		used := min(m.rule.Used(m.state, m.long, oldAt), n.rule.Quota())
		if n.rule.Long() {
			n.rule.Charge(n.long, at, used)
		} else {
			n.state, _ = n.rule.Take(rule.State{}, at, used)
		}
	}
	if n.long == nil {
		n.long = &rule.History{}
	}
	n.first = min(m.first, now) // in either unit not too late
	*m = *n
}

// cutBy says that more is in use than a limit of other numbers has.
func (m model) cutBy(l *limiter.Limit, key string, now int64) bool {
	long := l.Kind() == "sliding_log" || l.Kind() == "sliding_buckets"
	return m.rule.Used(m.state, m.long, m.at(now, key)) > l.Quota() && !(long && m.rule.Long())
}

// copy is a model of which m may forget. The entries of a History, which are two
// numbers each, are its first field.
func (m model) copy() model {
	h := *m.long
	entries := (*[][2]int64)(unsafe.Pointer(&h))
	*entries = slices.Clone(*entries)
	m.long = &h
	return m
}

func (m *model) decision(v rule.Verdict) limiter.Decision {
	d := limiter.Decision{
		Allowed: v.Retry == 0, Never: v.Retry == rule.Never, By: m.limit, Quota: m.limit.Quota(),
		Remaining: v.Remaining, ResetAfter: m.duration(v.Reset), Delay: m.duration(v.Delay),
		RetryAfter: time.Duration(v.Retry),
	}
	if !d.Never {
		d.RetryAfter = m.duration(v.Retry)
	}
	return d
}

func (m *model) duration(n int64) time.Duration { return up(time.Duration(n * (1000 / m.tick))) }

// randomLimit draws a limit that is exact in Redis, with numbers of all
// magnitudes, as trouble is where they do not divide each other.
func randomLimit(t *testing.T, rng *rand.Rand, name string) *limiter.Limit {
	upTo := func(bits int) int64 { return 1 + rng.Int64N(1<<(1+rng.IntN(bits))) }
	for {
		var l *limiter.Limit
		var err error
		quota, window := upTo(8), time.Duration(upTo(36))*time.Microsecond
		if rng.IntN(4) == 0 {
			quota = upTo(31)
		}
		switch rng.IntN(10) {
		case 0, 1:
			l, err = limiter.FixedWindow(name, quota, window, limiter.Alignment(rng.IntN(3)))
		case 2, 3:
			l, err = limiter.SlidingCounter(name, quota, window)
		case 4:
			l, err = limiter.SlidingLog(name, min(quota, MaxEntries), window)
		case 5:
			cells := 1 + rng.IntN(30)
			l, err = limiter.SlidingBuckets(name, quota, window*time.Duration(cells), cells)
		case 6:
			zone := []*time.Location{time.UTC, time.FixedZone("east", 9*3600), time.FixedZone("east", 8*3600)}[rng.IntN(3)]
			l, err = limiter.Quota(name, quota, limiter.Period(1+rng.IntN(2)), zone)
		case 7:
			l, err = limiter.TokenBucket(name, limiter.Per(upTo(30), time.Duration(upTo(50))), quota)
		case 8:
			l, err = limiter.LeakyMeter(name, limiter.Per(upTo(20), time.Duration(upTo(40))), quota)
		default:
			l, err = limiter.LeakyQueue(name, limiter.Per(upTo(10), time.Duration(upTo(30))*time.Microsecond), quota)
		}
		if err != nil {
			continue // not exact anywhere
		}
		if _, err = planOf(l); err == nil {
			return l
		}
	}
}

// spanOf is about how long a limit remembers, in microseconds.
func spanOf(l *limiter.Limit) int64 {
	if l.Window() == 0 {
		return int64(24 * time.Hour / time.Microsecond)
	}
	return int64(l.Window()/time.Microsecond) + 1
}

func randomCost(rng *rand.Rand, quota int64) int64 {
	switch rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return quota + rng.Int64N(2)
	case 2:
		return rng.Int64N(quota + 2)
	case 3, 4:
		return rng.Int64N(quota/8+1) + 1
	default:
		return 1
	}
}

// tale runs some limits through requests of random times, some of which step
// back, costs, refunds and changes of numbers, and holds each answer of Redis
// against what the rules say.
func tale(t *testing.T, s *Store, seed uint64, steps int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	now := clocked(s)
	*now = 1_790_000_000_000_000 + rng.Int64N(1<<40)
	name := func(i int) string { return fmt.Sprint("tale ", seed, " ", i) }
	tick := []int64{1, 1000}[seed%2]
	models := make([]*model, 1+rng.IntN(3))
	for i := range models {
		models[i] = modelOf(t, randomLimit(t, rng, name(i)), tick)
	}
	key := fmt.Sprint("key", rng.IntN(100))
	latest := int64(0)
	for step := range steps {
		if latest = max(latest, *now); latest > 3_000_000_000_000_000 {
			return // beyond 2065: far spans have made it late
		}
		m := models[rng.IntN(len(models))]
		span := spanOf(m.limit)
		switch rng.IntN(10) {
		case 0:
		case 1:
			*now++
		case 2:
			*now += rng.Int64N(2*span) + 1
		case 3:
			*now += span
		case 4:
			if rng.IntN(3) == 0 && !slices.ContainsFunc(models, func(m *model) bool { return m.forgets(*now) }) {
				*now -= rng.Int64N(3*span) / (1 + rng.Int64N(20))
			}
		default:
			*now += rng.Int64N(span/int64(1+rng.IntN(20))+1) + 1
		}
		say := func(text string) string {
			return fmt.Sprintf("seed %d step %d %s at %d: %s %+v", seed, step, text, *now, m.limit.Kind(), m.limit)
		}
		switch rng.IntN(12) {
		case 0:
			cost := randomCost(rng, m.limit.Quota())
			require.NoError(t, s.Refund(t.Context(), m.limit.Charge(key, cost)), say("refund"))
			if cost > 0 {
				m.refund(key, *now, cost)
			}
			continue
		case 1:
			if tick == 1000 {
				continue
			}
			i := slices.Index(models, m)
			l := randomLimit(t, rng, name(i))
			before, cut := m.copy(), m.copy().cutBy(l, key, *now)
			m.replace(t, l, key, *now)
			// A charge of the smallest cost makes Redis carry the state over now.
			d, err := s.Take(t.Context(), l.Charge(key, 1))
			v, keep := m.ask(key, *now, 1)
			if cut { // it is refused, and all is as it was for who asks with the numbers of before
				require.NoError(t, err)
				require.False(t, d.Allowed, say("cut"))
				require.Zero(t, d.Remaining, say("cut"))
				require.GreaterOrEqual(t, d.RetryAfter, m.decision(v).RetryAfter, say("cut"))
				if *m = before; m.rule.Long() {
					m.ask(key, *now, 1) // the clock may have stepped back
				} else {
					m.state, _ = m.rule.Take(m.state, m.at(*now, key), 0)
				}
				continue
			}
			if v.Allowed() || !m.rule.Long() {
				keep()
			}
			require.NoError(t, err)
			require.Equal(t, m.decision(v), d, say("changed"))
			continue
		}
		n := 1 + rng.IntN(len(models))
		charges, want := make([]limiter.Charge, n), make([]limiter.Decision, n)
		keeps := make([]func(), n)
		allowed := true
		for i, m := range models[:n] {
			cost := randomCost(rng, m.limit.Quota())
			if n > 1 && rng.IntN(2) == 0 {
				cost = min(cost, 1)
			}
			if m.rule.Long() && *now < latest {
				cost = max(cost, 1) // to ask changes a History when the clock has stepped back, and no value
			}
			charges[i] = m.limit.Charge(key, cost)
			var v rule.Verdict
			v, keeps[i] = m.ask(key, *now, cost)
			want[i] = m.decision(v)
			allowed = allowed && v.Allowed()
		}
		for i, m := range models[:n] {
			switch {
			case allowed:
				keeps[i]()
			case m.rule.Long():
				v, _ := m.ask(key, *now, charges[i].Cost)
				if v.Allowed() {
					v, _ = m.ask(key, *now, 0)
				}
				want[i] = m.decision(v)
			default:
				before := m.state
				v, _ := m.ask(key, *now, charges[i].Cost)
				if v.Allowed() {
					v, keeps[i] = m.ask(key, *now, 0)
					want[i] = m.decision(v)
				}
				if charges[i].Cost > 0 { // a state that lay too far ahead is kept nearer
					m.state, _ = m.rule.Take(before, m.at(*now, key), 0)
				}
			}
		}
		got, err := s.Take(t.Context(), charges...)
		require.NoError(t, err)
		require.NoError(t, got.Degraded, say("take"))
		require.Equal(t, allowed, got.Allowed, say("take"))
		if n == 1 {
			require.Equal(t, want[0], got, say(fmt.Sprint("cost ", charges[0].Cost)))
		} else {
			require.Equal(t, want, got.Each, say(fmt.Sprint("stack ", charges, models[0].limit.Kind())))
		}
	}
}

// Redis and the rules decide alike, for random limits, costs and times.
func TestParity(t *testing.T) {
	tales := times(100)
	if long {
		tales = 1000
	}
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		for seed := range tales {
			tale(t, s, uint64(seed), 60)
		}
	})
}

func FuzzParity(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(1_000_000+seed, uint8(40))
	}
	s := storeAt(f, redistest.Start(f).Addr)
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) {
		require.NoError(t, flush(s))
		tale(t, s, seed, int(steps))
	})
}

// flush forgets all keys, as a seed may come again.
func flush(s *Store) error {
	_, err := s.Client.Eval(context.Background(), NewScript("redis.call('FLUSHALL') return 1"), nil, nil)
	return err
}
