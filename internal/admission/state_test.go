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
	var s service
	s.trust = math.MaxInt64
	s.add(second, 0)
	p90, mean := s.typical()
	assert.Zero(t, p90, "one says nothing")
	assert.Zero(t, mean)
	for i := range int64(1000) {
		s.add((i%100)*millisecond, i)
	}
	s.fresh = 0
	p90, mean = s.typical()
	assert.InEpsilon(t, 90*millisecond, p90, .07)
	assert.InEpsilon(t, 50*millisecond, mean, .07)
	for range 1024 {
		s.add(5*millisecond, 0)
	}
	p90, mean = s.typical()
	assert.InEpsilon(t, 5*millisecond, p90, .07, "the old is forgotten")
	assert.InEpsilon(t, 5*millisecond, mean, .07)
	for range 200 {
		s.add(10*second, 0)
	}
	s.fresh = 0
	_, mean = s.typical()
	assert.Less(t, mean, 20*millisecond, "a stall is not what the queue moves by")
	for d := int64(1 << 10); d < 1<<40; d += d/7 + 1 {
		require.InEpsilon(t, d, middle(bucket(d)), .0626)
	}
	for _, d := range []int64{-1, 0, math.MaxInt64} {
		s.add(d, 0)
	}
}
