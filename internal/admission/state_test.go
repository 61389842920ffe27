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

func TestRetryAfter(t *testing.T) { // kubernetes#117734, #79805, #97991
	g := New(Config{Limit: 0, Queue: -1}, 1)
	now := int64(1e18)
	says := func() [2]time.Duration {
		return [2]time.Duration{g.RetryAfter(now, 0), g.RetryAfter(now, .999999)}
	}
	refuse := func(perSecond int) {
		for range perSecond {
			g.Arrive(&Ticket{}, now)
		}
		now += second
	}
	seconds := func(from, to time.Duration) [2]time.Duration {
		return [2]time.Duration{from * time.Second, to * time.Second}
	}
	assert.Equal(t, seconds(1, 2), says(), "nobody refused")
	for range 60 {
		refuse(1)
		g.Refused(now - second)
	}
	assert.Equal(t, seconds(1, 2), says(), "few refused")
	var grew [][2]time.Duration
	for range 40 {
		refuse(3)
		if now := says(); len(grew) == 0 || grew[len(grew)-1] != now {
			grew = append(grew, now)
		}
	}
	assert.Equal(t, [][2]time.Duration{seconds(2, 4), seconds(4, 8), seconds(8, 16), seconds(16, 32)}, grew)
	var when []int // it doubles, however many are refused
	now += 100 * second
	for i := range 40 {
		was := says()
		refuse(1000)
		if says() != was {
			when = append(when, i+1)
		}
	}
	assert.Equal(t, []int{1, 3, 7, 15}, when)
	seen := map[time.Duration]bool{}
	for i := range 1000 {
		seen[g.RetryAfter(now, float64(i)/1000)] = true
	}
	assert.Len(t, seen, 17, "spread over every second")
	for i := range 40 {
		was := says()
		now += second
		assert.LessOrEqual(t, says()[1], was[1], "%d s of quiet", i)
	}
	assert.Equal(t, seconds(1, 2), says())
	now -= 100 * second
	assert.Equal(t, seconds(1, 2), says(), "a clock that steps back")
	now += 1e18
	assert.Equal(t, seconds(1, 2), says(), "and far ahead")
	for _, random := range []float64{-5, 5, math.NaN(), math.Inf(1)} {
		assert.LessOrEqual(t, g.RetryAfter(now, random), 2*time.Second)
		assert.GreaterOrEqual(t, g.RetryAfter(now, random), time.Second)
	}
}

func TestCensus(t *testing.T) {
	t.Run("full, who is idle goes first (todoist-mcp#598)", func(t *testing.T) {
		c := census{room: 2}
		for range 100 {
			require.True(t, c.own(1, 0))
		}
		require.True(t, c.own(2, 5*second))
		assert.False(t, c.own(3, 6*second), "nobody is idle: the place of the least, but not a share")
		require.True(t, c.own(1, 6*second))
		assert.True(t, c.own(4, 17*second))
		assert.True(t, c.own(5, 17*second))
		assert.Len(t, c.at, 2)
	})
	t.Run("who comes often stays, and who begins to is found", func(t *testing.T) {
		c := census{room: 10}
		heavy := 0
		for i := range uint64(100_000) {
			now := int64(i) * 1e5
			c.own(1000+i, now) // a name that never comes again
			if i%5 == 0 && i > 1000 && c.own(1, now) {
				heavy++
			}
		}
		assert.Greater(t, heavy, 19_700)
		assert.Len(t, c.at, 10)
		assert.Len(t, c.names, 10)
	})
	t.Run("what was long ago counts less", func(t *testing.T) {
		c := census{room: 2}
		for range 500 {
			c.own(1, 0)
		}
		for i := range int64(450) { // ten a second
			c.own(2+uint64(i%2), i*second/10)
			if i%50 == 0 && i < 400 {
				c.own(1, i*second/10)
			}
		}
		assert.NotContains(t, c.at, uint64(1))
	})
	t.Run("no room", func(t *testing.T) {
		c := census{room: -1}
		assert.False(t, c.own(1, 0))
	})
}

func TestHash(t *testing.T) {
	seen := map[uint64]string{}
	for i := range 20_000 {
		for _, s := range []string{strconv.Itoa(i), fmt.Sprintf("tenant-%d@example.com", i)} {
			h := hash(7, s) | tenants
			require.Empty(t, seen[h], "%q", s)
			seen[h] = s
		}
	}
	assert.NotEqual(t, hash(1, "a"), hash(1, "a\x00"))
	assert.NotEqual(t, hash(1, "a"), hash(2, "a"))
}

func TestService(t *testing.T) {
	const ms = millisecond
	at := func(s *service, now int64) estimate {
		s.fresh = 0
		return s.typical(now)
	}
	t.Run("few say nothing", func(t *testing.T) {
		var s service
		for range serviceEnough - 1 {
			s.add(second, 0)
		}
		assert.Zero(t, at(&s, 0))
		s.add(second, 0)
		assert.NotZero(t, at(&s, 0))
	})
	t.Run("figures", func(t *testing.T) {
		var s service
		for i := range int64(1000) {
			s.add((10+i%100)*ms, i)
		}
		e := at(&s, 1000)
		assert.InEpsilon(t, 10*ms, e.least, .125)
		assert.LessOrEqual(t, e.least, 10*ms)
		assert.InEpsilon(t, 100*ms, e.tail, .07)
		assert.InEpsilon(t, 60*ms, e.mean, .07)
	})
	t.Run("what is of another kind counts four medians", func(t *testing.T) {
		var s service
		for i := range int64(500) {
			d := 5 * ms
			if i%5 == 0 {
				d = 10 * second
			}
			s.add(d, 0)
		}
		e := at(&s, 0)
		assert.InEpsilon(t, 20*ms, e.tail, .07)
		assert.Less(t, e.mean, 10*ms)
	})
	t.Run("many new ones are all that counts", func(t *testing.T) {
		var s service
		for range 1000 {
			s.add(50*ms, 0)
		}
		for range 1024 {
			s.add(5*ms, 0)
		}
		e := at(&s, 0)
		assert.InEpsilon(t, 5*ms, e.tail, .07)
		assert.InEpsilon(t, 5*ms, e.mean, .07)
	})
	t.Run("what is long ago says nothing", func(t *testing.T) {
		for _, wait := range []int64{20 * second, 100 * second} {
			var s service
			for range 20 {
				s.add(2*second, 0)
			}
			s.add(2*second, serviceSpan)
			s.add(2*second, wait)
			assert.Zero(t, at(&s, wait), "few are of late")
		}
	})
	t.Run("what was slow counts for seconds", func(t *testing.T) {
		var s service
		for range 500 {
			s.add(2*second, second)
		}
		assert.InEpsilon(t, 2*second, at(&s, second).least, .13)
		assert.Equal(t, 250*ms, at(&s, 4*second).tail)
		s.add(20*ms, 4*second)
		assert.Equal(t, 250*ms, at(&s, 4*second).tail)
		s.add(300*ms, 4*second)
		assert.Equal(t, 300*ms, at(&s, 4*second).tail, "and at once if it is slow again")
		assert.NotZero(t, at(&s, 0), "a clock that steps back")
	})
	t.Run("who gives up says that it is longer", func(t *testing.T) {
		var s service
		s.addAtLeast(second, 0)
		for range 100 {
			s.add(50*ms, 0)
		}
		n := s.recent.n
		s.addAtLeast(20*ms, 0)
		assert.Equal(t, n, s.recent.n)
		for range 100 {
			s.addAtLeast(100*ms, 0)
		}
		assert.Greater(t, at(&s, 0).tail, 90*ms)
	})
	for d := int64(1 << 10); d < 1<<40; d += d/7 + 1 {
		require.InEpsilon(t, d, middle(bucket(d)), .0626)
		require.LessOrEqual(t, lower(bucket(d)), d)
	}
	var s service
	for _, d := range []int64{-1, 0, math.MaxInt64} {
		s.add(d, 0)
	}
}
