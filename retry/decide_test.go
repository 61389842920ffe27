package retry

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/observe"
)

func half() float64 { return 0.5 }

// failed is a GET's 503, with everything else in favour of another try.
func failed(change func(*situation)) situation {
	s := situation{kind: transient, safe: true, rewinds: true, sent: 1, room: forever, funded: true}
	if change != nil {
		change(&s)
	}
	return s
}

func TestDecide(t *testing.T) {
	const told, open = 20 * time.Second, 3 * time.Second
	for _, c := range []struct {
		name   string
		policy Policy
		change func(*situation)
		wait   time.Duration // of a retry
		reason observe.Reason
	}{
		{"backoff", Policy{}, nil, 250 * time.Millisecond, observe.Backoff},
		{"third backoff", Policy{}, func(s *situation) { s.sent, s.retries = 3, 2 }, time.Second, observe.Backoff},
		{"no backoff", Policy{Base: -1}, nil, 0, observe.Backoff},
		{"told", Policy{}, func(s *situation) { s.told, s.wait = true, told }, 21 * time.Second, observe.Told},
		{"told nothing to speak of", Policy{}, func(s *situation) { s.told = true }, 250 * time.Millisecond, observe.Backoff},
		{"told less than the backoff", Policy{Base: time.Minute, Cap: -1}, func(s *situation) { s.told, s.wait = true, told }, 30 * time.Second, observe.Backoff},
		{"told, jitter within the room", Policy{}, func(s *situation) { s.told, s.wait, s.room = true, told, told+time.Second }, told + time.Second/2, observe.Told},
		{"told fits, backoff does not", Policy{Base: 2 * time.Minute, Cap: -1}, func(s *situation) { s.told, s.wait, s.room = true, told, told+10*time.Second }, 21 * time.Second, observe.Told},
		{"unheard POST", Policy{}, func(s *situation) { s.kind, s.safe = unheard, false }, 250 * time.Millisecond, observe.Backoff},
		{"unsent POST", Policy{}, func(s *situation) { s.safe, s.unsent = false, true }, 250 * time.Millisecond, observe.Backoff},
		{"conflict, told", Policy{}, func(s *situation) { s.kind, s.told, s.wait = conflict, true, told }, 21 * time.Second, observe.Told},
		{"conflict after an uncertain try", Policy{}, func(s *situation) { s.kind, s.uncertain = conflict, true }, 250 * time.Millisecond, observe.Backoff},
		{"check allows", Policy{}, func(s *situation) { s.kind, s.safe, s.check = final, false, Retry }, 250 * time.Millisecond, observe.Backoff},
		{"open circuit", Policy{OutlastOpen: true}, func(s *situation) { s.kind, s.open, s.wait, s.funded, s.sent = refused, true, open, false, 9 }, open + 150*time.Millisecond, observe.Open},
		{"open circuit, probe out", Policy{OutlastOpen: true}, func(s *situation) { s.kind, s.open = refused, true }, 375 * time.Millisecond, observe.Open},
		{"open circuit, no backoff", Policy{OutlastOpen: true, Base: -1}, func(s *situation) { s.kind, s.open = refused, true }, 7500 * time.Microsecond, observe.Open},

		{"success", Policy{}, func(s *situation) { s.kind = final }, -1, ""},
		{"success, stopped", Policy{}, func(s *situation) { s.kind, s.check = final, Stop }, -1, ""},
		{"stopped", Policy{}, func(s *situation) { s.check = Stop }, -1, observe.NotRetryable},
		{"hopeless", Policy{}, func(s *situation) { s.kind = turnedOff }, -1, observe.NotRetryable},
		{"conflict", Policy{}, func(s *situation) { s.kind = conflict }, -1, observe.NotRetryable},
		{"unsafe conflict", Policy{}, func(s *situation) { s.kind, s.told, s.safe = conflict, true, false }, -1, observe.NotSafe},
		{"unsafe", Policy{}, func(s *situation) { s.safe = false }, -1, observe.NotSafe},
		{"no rewind", Policy{}, func(s *situation) { s.rewinds = false }, -1, observe.NotReplayable},
		{"no rewind, check allows", Policy{}, func(s *situation) { s.rewinds, s.check = false, Retry }, -1, observe.NotReplayable},
		{"four tries", Policy{}, func(s *situation) { s.sent = 4 }, -1, observe.Attempts},
		{"one try", Policy{MaxAttempts: 1}, nil, -1, observe.Attempts},
		{"ended", Policy{}, func(s *situation) { s.ended, s.check = true, Retry }, -1, observe.Cancelled},
		{"told too long", Policy{}, func(s *situation) { s.told, s.wait = true, 301*time.Second }, -1, observe.TooLong},
		{"told beyond the deadline", Policy{}, func(s *situation) { s.told, s.wait, s.room = true, told, told }, -1, observe.Deadline},
		{"backoff beyond the deadline", Policy{}, func(s *situation) { s.room = 250 * time.Millisecond }, -1, observe.Deadline},
		{"told zero, backoff beyond the deadline", Policy{}, func(s *situation) { s.told, s.room = true, 250*time.Millisecond }, -1, observe.Deadline},
		{"deadline passed", Policy{Base: -1}, func(s *situation) { s.room = 0 }, -1, observe.Deadline},
		{"no token", Policy{}, func(s *situation) { s.funded = false }, -1, observe.Budget},
		{"refused", Policy{OutlastOpen: true}, func(s *situation) { s.kind = refused }, -1, observe.Refused},
		{"refused, check allows", Policy{}, func(s *situation) { s.kind, s.check = refused, Retry }, -1, observe.Refused},
		{"open circuit, not outlasted", Policy{}, func(s *situation) { s.kind, s.open, s.wait = refused, true, open }, -1, observe.Refused},
		{"open circuit, no rewind", Policy{OutlastOpen: true}, func(s *situation) { s.kind, s.open, s.rewinds = refused, true, false }, -1, observe.NotReplayable},
		{"open circuit, too long", Policy{OutlastOpen: true}, func(s *situation) { s.kind, s.open, s.wait = refused, true, time.Hour }, -1, observe.TooLong},
		{"open circuit, no room", Policy{OutlastOpen: true}, func(s *situation) { s.kind, s.open, s.wait, s.room = refused, true, open, open }, -1, observe.Deadline},
		{"open circuit, ended", Policy{OutlastOpen: true}, func(s *situation) { s.kind, s.open, s.ended = refused, true, true }, -1, observe.Cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.policy.decide(failed(c.change), half)
			assert.Equal(t, c.reason, d.reason)
			assert.Equal(t, c.wait >= 0, d.again)
			if d.again {
				assert.Equal(t, c.wait, d.wait)
				assert.Equal(t, c.reason != observe.Open, d.pays)
			}
		})
	}
}

func TestBackoffDoublesToTheCap(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		n      int
		want   time.Duration
	}{
		{Policy{}, 1, 500 * time.Millisecond},
		{Policy{}, 0, 500 * time.Millisecond},
		{Policy{}, -7, 500 * time.Millisecond},
		{Policy{}, 2, time.Second},
		{Policy{}, 5, 8 * time.Second},
		{Policy{}, 6, 10 * time.Second},
		{Policy{}, math.MaxInt, 10 * time.Second},
		{Policy{Base: 3}, 3, 12},
		{Policy{Base: -1}, 9, 0},
		{Policy{Base: -1}, math.MaxInt, 0},
		{Policy{Base: time.Minute}, 1, 10 * time.Second},
		{Policy{Cap: -1}, 100, forever},
		{Policy{Base: 1, Cap: -1}, 63, 1 << 62},
		{Policy{Base: 1, Cap: -1}, 64, forever},
		{Policy{Base: 3, Cap: -1}, 62, 3 << 61},
		{Policy{Base: 3, Cap: -1}, 63, forever},
		{Policy{Base: forever, Cap: -1}, 1, forever},
		{Policy{Base: forever, Cap: -1}, 2, forever},
	} {
		assert.Equal(t, c.want, c.policy.Backoff(c.n), "%+v, n = %d", c.policy, c.n)
	}
}

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	within := func(base, ceiling time.Duration, n uint8, last time.Duration, seed uint64) bool {
		random := rand.New(rand.NewPCG(seed, 1)).Float64
		p := Policy{Base: base, Cap: ceiling}
		b := p.Backoff(int(n))
		ok := b >= 0 && b <= p.ceiling() && (n < 2 || b >= p.Backoff(int(n)-1))
		for p.Jitter = FullJitter; p.Jitter <= EqualJitter; p.Jitter++ {
			w := p.Jittered(int(n), last, random)
			low := map[Jitter]time.Duration{FullJitter: 0, NoJitter: b, EqualJitter: b / 2}[p.Jitter]
			ok = ok && w >= low && w <= b
		}
		p.Jitter = DecorrelatedJitter
		w := p.Jittered(int(n), last, random)
		return ok && w >= min(p.base(), p.ceiling()) && w <= p.ceiling()
	}
	assert.NoError(t, quick.Check(within, &quick.Config{MaxCount: 20_000}))
}

// What is told is never undercut, and what is waited always leaves room.
func TestToldIsNeverUndercut(t *testing.T) {
	holds := func(base, told, room, longest time.Duration, n uint8, jitter uint8, seed uint64, open bool) bool {
		p := Policy{Base: base >> 20, MaxRetryAfter: longest, Jitter: Jitter(jitter % 4), MaxAttempts: -1, OutlastOpen: true}
		told, room = told&math.MaxInt64>>(seed%40), room&math.MaxInt64>>(seed%30)
		s := failed(func(s *situation) { s.told, s.wait, s.room, s.retries = true, told, room, int(n) })
		if open {
			s.kind, s.open = refused, true
		}
		d := p.decide(s, rand.New(rand.NewPCG(seed, 2)).Float64)
		fits := told <= p.maxRetryAfter() && told < room
		if d.again != fits && !(fits && (open || told == 0)) { // the floor of an open circuit may not fit, nor that of told zero
			return false
		}
		return !d.again || d.wait >= told && d.wait < room &&
			d.wait <= max(later(told, told/10), p.ceiling())
	}
	assert.NoError(t, quick.Check(holds, &quick.Config{MaxCount: 20_000}))
}

func TestDecideDependsOnNothingElse(t *testing.T) {
	same := func(s situation, seed uint64) bool {
		p := Policy{MaxAttempts: int(seed % 5)}
		a := p.decide(s, rand.New(rand.NewPCG(seed, 3)).Float64)
		return a == p.decide(s, rand.New(rand.NewPCG(seed, 3)).Float64)
	}
	for seed := range uint64(100) {
		assert.True(t, same(failed(func(s *situation) { s.told, s.wait = seed%2 == 0, time.Duration(seed)*time.Second }), seed))
	}
}
