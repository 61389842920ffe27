package pacer

import (
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
)

func policy(name string, quota, remaining float64, reset, per time.Duration) headerparse.Limit {
	return headerparse.Limit{Name: name, Quota: quota, Remaining: remaining, Reset: reset, Window: per}
}

const second = int64(time.Second)

// spent is a ration of a quota of 100 in 10 s at instant 0, of which nothing
// was left until a second passed; now so much is.
func spent(t *testing.T, left float64) *ration {
	t.Helper()
	var rs rations
	m := policy("a", 100, 0, time.Second, 10*time.Second)
	require.True(t, rs.tell(0, &m, true, false))
	m.Remaining, m.Reset = left, 9*time.Second
	require.True(t, rs.tell(second, &m, false, false))
	return &rs[0]
}

func TestRationPace(t *testing.T) {
	for _, c := range []struct {
		left float64
		want time.Duration // from one unit to the next; 100 in 10 s is one in 100 ms
	}{
		{0, 1000 * ms}, // as of one
		{1, 1000 * ms},
		{5, 200 * ms},
		{10, 100 * ms}, // √100
		{20, 50 * ms},
		{30, 33333334},
		{90, 33333334},
	} {
		r := spent(t, c.left)
		rs := rations{*r}
		rs.take(second, 1)
		rs.answered(second, 1)
		got := rs.soonest(second, 0, 0)
		assert.EqualValues(t, c.want, got-second, "%v left", c.left)
		assert.InDelta(t, float64(got)+5*min(1e8, float64(c.want)), float64(rs.soonest(second, 5, 0)), 1e3, "behind five others, %v left", c.left)
	}
	large := rations{*spent(t, 20)}
	large.take(second, 7)
	large.answered(second, 7)
	assert.EqualValues(t, 350*ms, large.soonest(second, 0, 1)-second, "after a call of 7 units")
	small := ration{quota: 3, window: 3e9, left: 1}
	assert.Equal(t, 1e-9, small.pace(0), "of a small quota a third is enough")
}

func TestRationSubtractsWhatIsOut(t *testing.T) {
	rs := rations{*spent(t, 10)}
	for range 5 {
		rs.take(second, 1)
	}
	assert.EqualValues(t, 200*ms, rs.soonest(second, 0, 1)-second, "5 of 10 are out")
	rs.answered(second, 3)
	assert.EqualValues(t, 125*ms, rs.soonest(second, 0, 1)-second, "2 are out")
	rs.answered(second, 50)
	assert.EqualValues(t, 100*ms, rs.soonest(second, 0, 1)-second, "none is")
	assert.Zero(t, rs[0].debt)
	// What is out for long, the window has given back.
	for range 8 {
		rs.take(second, 1)
	}
	assert.Equal(t, 3.0, rs[0].owed(second+500*int64(ms)))
	assert.Equal(t, 0.0, rs[0].owed(2*second))
}

// More units than are left wait until the window has given them, or for the
// reset; then they are tried.
func TestRationWaitsForUnits(t *testing.T) {
	rs := rations{*spent(t, 10)}
	assert.EqualValues(t, 1*second, rs.soonest(second, 0, 10))
	assert.EqualValues(t, 3*second, rs.soonest(second, 0, 30))
	assert.EqualValues(t, 3*second, rs.soonest(2*second, 0, 30), "the wait does not begin anew")
	assert.EqualValues(t, 10*second, rs.soonest(second, 0, 1000), "the reset")
	assert.EqualValues(t, 11*second, rs.soonest(11*second, 0, 1000))
}

// An answer that was long on its way tells of more than is there.
func TestRationDoesNotBelieveOldAnswers(t *testing.T) {
	r := spent(t, 10)
	m := policy("a", 100, 50, 8*time.Second, 10*time.Second)
	r.tell(second+second/2, &m)
	assert.Equal(t, 16.0, r.left, "5 were given back, and one may be counted by the other answer")
	m.Remaining, m.Reset = 3, headerparse.Unknown
	r.tell(2*second, &m)
	assert.Equal(t, 3.0, r.left)
	assert.EqualValues(t, 9*second+second/2, r.reset, "an answer without one leaves it")
	m.Remaining, m.Reset = 99, 12*time.Second
	r.tell(3*second, &m)
	assert.Equal(t, 99.0, r.left, "another window")
	m.Remaining = 10
	r.tell(4*second, &m)
	m.Remaining = 98
	r.tell(16*second, &m)
	assert.Equal(t, 98.0, r.left, "the reset has passed")
}

func TestWhatIsRationed(t *testing.T) {
	for _, c := range []struct {
		name string
		s    headerparse.Signal
		want float64 // the window in seconds; 0: none
	}{
		{"spent", limited(200, policy("a", 10, 0, time.Second, 2*time.Second)), 2},
		{"refused", headerparse.Signal{Status: 429, Told: true, Wait: time.Second, Limits: []headerparse.Limit{policy("a", 10, 0, time.Second, 2*time.Second)}}, 2},
		{"refused, as less is left than asked for", headerparse.Signal{Status: 429, Told: true, Wait: time.Second, Limits: []headerparse.Limit{policy("a", 10, 3, time.Second, 2*time.Second)}}, 2},
		{"refused, by another", headerparse.Signal{Status: 429, Told: true, Wait: time.Second, By: -1, Limits: []headerparse.Limit{policy("a", 10, 3, time.Second, 2*time.Second)}}, 0},
		{"told of a success", headerparse.Signal{Status: 200, Told: true, Wait: time.Second, Limits: []headerparse.Limit{policy("a", 10, 3, time.Second, 2*time.Second)}}, 0},
		{"a minute", limited(200, policy("a", 10, 0, time.Second, time.Minute)), 60},
		{"over a minute", limited(200, policy("a", 10, 0, time.Second, time.Minute+1)), 0},
		{"window unknown", limited(200, limit("a", 10, 0, 7*time.Second)), 7},
		{"window unknown, reset short", limited(200, limit("a", 10, 0, time.Millisecond)), 1},
		{"window unknown, reset far", limited(200, limit("a", 10, 0, time.Hour)), 0},
		{"reset unknown", limited(200, limit("a", 10, 0, headerparse.Unknown)), 0},
		{"quota unknown", limited(200, limit("a", headerparse.Unknown, 0, time.Second)), 0},
		{"quota zero", limited(200, limit("a", 0, 0, time.Second)), 0},
		{"some left", limited(200, policy("a", 10, 1, time.Second, 2*time.Second)), 0},
		{"bytes", limited(200, headerparse.Limit{Unit: "content-bytes", Quota: 10, Reset: time.Second, Window: time.Second}), 0},
		{"in flight", limited(200, headerparse.Limit{Unit: "concurrent-requests", Quota: 10, Reset: time.Second, Window: time.Second}), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := new(Pacer)
				p.Observe("k", c.s, time.Now())
				l := p.known("k")
				if l == nil || c.want == 0 {
					assert.True(t, l == nil || l.rations == nil)
					return
				}
				require.Len(t, l.rations, 1)
				assert.Equal(t, c.want*1e9, l.rations[0].window)
				off := &Pacer{SpreadBelow: -1}
				off.Observe("k", c.s, time.Now())
				assert.Nil(t, off.known("k").rations, "SpreadBelow is negative")
			})
		})
	}
}

func TestRationsAreFew(t *testing.T) {
	var rs rations
	for i := range 10 {
		m := policy(string(rune('a'+i)), 10, 0, time.Second, time.Second)
		rs.tell(0, &m, true, false)
	}
	assert.Len(t, rs, maxRations)
	assert.EqualValues(t, 2*second, rs.fresh(0))
	rs.settle(2*second - 1)
	assert.Len(t, rs, maxRations)
	rs.settle(2 * second)
	assert.Nil(t, rs)
}

// It ends when nobody waits and half is there, and no sooner.
func TestRationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(new(Pacer))
		say := func(left float64) {
			p.Observe("k", limited(200, policy("a", 10, left, time.Second, 10*time.Second)), time.Now())
		}
		say(0)
		start := time.Now()
		d := &departures{start: start}
		d.call(t, t.Context(), "0", Claim{p, "k", 1})
		d.call(t, t.Context(), "1", Claim{p, "k", 1})
		time.Sleep(1500 * ms)
		say(5) // but one waits
		require.Len(t, p.known("k").rations, 1)
		d.Wait()
		assert.Equal(t, []string{"0 1s", "1 1.632455533s"}, d.got)
		say(4)
		require.Len(t, p.known("k").rations, 1)
		say(5)
		require.Empty(t, p.known("k").rations)
		assert.True(t, p.known("k").free.Load(), "and then nothing paces the key")
	})
}

func TestRationEndsWhenNothingIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(new(Pacer))
		start := time.Now()
		p.Observe("k", limited(200, policy("a", 100, 0, time.Second, 10*time.Second)), start)
		assert.Equal(t, time.Second, leave(t, p, start, "k", 1))
		assert.Equal(t, 2*time.Second, leave(t, p, start, "k", 1))
		time.Sleep(9 * time.Second) // a window after the reset
		for range 5 {
			assert.Equal(t, 11*time.Second, leave(t, p, start, "k", 1))
		}
		assert.True(t, p.known("k").free.Load(), "nothing paces the key")
	})
}

// Those who waited for the reset leave at the ration's pace, and not within a
// tenth of how long they waited.
func TestRationPacesAfterAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(new(Pacer))
		start := time.Now()
		p.Observe("k", limited(200, policy("a", 60, 0, 50*time.Second, time.Minute)), start)
		d := &departures{start: start}
		for _, name := range []string{"0", "1", "2"} {
			d.call(t, t.Context(), name, Claim{p, "k", 1})
		}
		time.Sleep(50*time.Second + 100*ms)
		p.Observe("k", limited(200, policy("a", 60, 59, time.Minute, time.Minute)), time.Now())
		d.Wait()
		assert.Equal(t, []string{"0 50s", "1 50.333333334s", "2 50.666666668s"}, d.got)
	})
}

// An answer that tells nothing of the limit tells that its call is no longer
// out.
func TestRationHearsSilentAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(new(Pacer))
		start := time.Now()
		p.Observe("k", limited(200, policy("a", 100, 0, time.Second, 10*time.Second)), start)
		time.Sleep(time.Second)
		p.Observe("k", limited(200, policy("a", 100, 30, 9*time.Second, 10*time.Second)), time.Now())
		assert.Equal(t, time.Second, leave(t, p, start, "k", 20))
		d := &departures{start: start}
		d.call(t, t.Context(), "0", Claim{p, "k", 1}) // 20 units at 10 a second
		time.Sleep(100 * ms)
		p.Observe("k", headerparse.Signal{Status: 200}, time.Now())
		d.Wait()
		assert.Equal(t, []string{"0 1.666666667s"}, d.got, "at 30 a second")
	})
}

// Who waits is not refused for a wait that is longer than it turns out to be:
// in the long run a window gives its quota, however little was left last.
func TestRationRefusesNobodyForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unjittered(&Pacer{MaxWait: 12 * time.Second})
		p.Observe("k", limited(429, policy("a", 100, 0, time.Second, 10*time.Second)), time.Now())
		var wg sync.WaitGroup
		for range 90 {
			wg.Go(func() {
				release, err := p.Wait(t.Context(), "k", 1)
				if !assert.NoError(t, err) {
					return
				}
				defer release()
				p.Observe("k", limited(200, policy("a", 100, 50, 9*time.Second, 10*time.Second)), time.Now())
			})
		}
		wg.Wait()
	})
}

// Answers that take longer than the bucket to fill tell what was long ago, and
// what is out was mostly paid for since. That costs some of the limit, not most.
func TestRationOfSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, latency = 5.0, 10.0, 3 * time.Second
		var p Pacer
		var mu sync.Mutex
		level, at := burst, time.Now()
		ok, refused := 0, 0
		ask := func() headerparse.Signal {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			level, at = min(burst, level+now.Sub(at).Seconds()*rate), now
			if level < 1 {
				refused++
				return headerparse.Signal{
					Status: http.StatusTooManyRequests, Told: true, Wait: time.Second, By: 0,
					Limits: []headerparse.Limit{policy("b", burst, 0, time.Second, 2*time.Second)},
				}
			}
			level--
			ok++
			return limited(200, policy("b", burst, math.Floor(level), time.Second, 2*time.Second))
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 20 { // 20 / 3 s is over 5 a second
			wg.Go(func() {
				for time.Since(start) < 100*time.Second {
					release, err := p.Wait(t.Context(), "k", 1)
					require.NoError(t, err)
					s := ask()
					time.Sleep(latency)
					p.Observe("k", s, time.Now())
					release()
				}
			})
		}
		wg.Wait()
		t.Logf("%d let in of %.0f, %d refused", ok, 100*rate, refused)
		assert.GreaterOrEqual(t, float64(ok), 0.7*100*rate)
		assert.LessOrEqual(t, refused, ok/5)
	})
}
