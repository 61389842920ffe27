package pacer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
)

const ms = time.Millisecond

// leave waits for n units and returns when they left, from start.
func leave(t *testing.T, p *Pacer, start time.Time, key string, n int64) time.Duration {
	t.Helper()
	release, err := p.Wait(t.Context(), key, n)
	require.NoError(t, err)
	release()
	return time.Since(start)
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		limit, burst int64
		window       time.Duration
		want         Rate
	}{
		{100, 40, 10 * time.Second, Per(6, time.Second)},
		{100, 1, 10 * time.Second, Rate{99, 10 * time.Second}},
		{10, 3, 3 * time.Second, Rate{7, 3 * time.Second}},
		{2, 1, time.Hour, Rate{1, time.Hour}},
		{math.MaxInt64, 1, time.Nanosecond, Rate{math.MaxInt64 - 1, time.Nanosecond}},
		{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64, Rate{1, math.MaxInt64}},
	} {
		got, err := Within(c.limit, c.window, c.burst)
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	for text, f := range map[string]func() (Rate, error){
		"limit is 1, must be at least 2":  func() (Rate, error) { return Within(1, time.Second, 1) },
		"window is 0s, must be positive":  func() (Rate, error) { return Within(9, 0, 1) },
		"burst is 9, must be from 1 to 8": func() (Rate, error) { return Within(9, time.Second, 9) },
		"burst is 0, must be from 1 to 8": func() (Rate, error) { return Within(9, time.Second, 0) },
	} {
		_, err := f()
		assert.ErrorContains(t, err, "pacer: Within: "+text)
	}
}

// In one goroutine, call after call, so every instant is exact.
func TestInstants(t *testing.T) {
	for _, c := range []struct {
		name string
		p    *Pacer
		n    []int64 // negative: idle for so many milliseconds first
		want string
	}{
		{"burst 3", &Pacer{Rate: Per(10, time.Second), Burst: 3}, []int64{1, 1, 1, 1, 1, -50, 1, -1000, 1, 1, 1, 1}, "[0s 0s 0s 100ms 200ms 300ms 1.3s 1.3s 1.3s 1.4s]"},
		{"default burst of a slow rate is 1", &Pacer{Rate: Per(10, time.Second)}, []int64{1, 1, -1000, 1, 1}, "[0s 100ms 1.1s 1.2s]"},
		{"default burst is 5 ms of the rate", &Pacer{Rate: Per(1000, time.Second)}, []int64{1, 1, 1, 1, 1, 1, 1}, "[0s 0s 0s 0s 0s 1ms 2ms]"},
		{"default burst fits what is asked", &Pacer{Rate: Per(10, time.Second)}, []int64{7, 1, -10000, 1, 1, -10000, 5, 1}, "[0s 100ms 10.1s 10.2s 20.2s 20.3s]"},
		{"units", &Pacer{Rate: Per(10, time.Second), Burst: 5}, []int64{5, 2, 3, 5}, "[0s 200ms 500ms 1s]"},
		{"rate that is no whole nanosecond", &Pacer{Rate: Per(3, time.Second), Burst: 2}, []int64{2, 1, 1, 1}, "[0s 333.333334ms 666.666667ms 1s]"},
		{"a full bucket runs over", &Pacer{Rate: Per(3, time.Second), Burst: 1}, []int64{1, 1, 1}, "[0s 333.333334ms 666.666668ms]"},
		{"leaky", &Pacer{Rate: Per(10, time.Second), Shape: LeakyBucket}, []int64{1, 1, 1, -1000, 1, 1}, "[0s 100ms 200ms 1.2s 1.3s]"},
		{"leaky takes any n", &Pacer{Rate: Per(10, time.Second), Burst: 1, Shape: LeakyBucket}, []int64{20, 1, 3, 1}, "[0s 2s 2.1s 2.4s]"},
		{"leaky is never short", &Pacer{Rate: Per(3, time.Second), Shape: LeakyBucket}, []int64{1, 1, 1, 1}, "[0s 333.333334ms 666.666668ms 1.000000002s]"},
		{"no rate", &Pacer{}, []int64{1, 100, math.MaxInt64, 0, 1}, "[0s 0s 0s 0s 0s]"},
		{"zero units take none", &Pacer{Rate: Per(1, time.Second)}, []int64{1, 0, 1, 0}, "[0s 0s 1s 1s]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var got []time.Duration
				for _, n := range c.n {
					if n < 0 {
						time.Sleep(time.Duration(-n) * ms)
						continue
					}
					got = append(got, leave(t, c.p, start, "k", n))
				}
				assert.Equal(t, c.want, fmt.Sprint(got))
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), Burst: 2, MaxQueue: 2}
		start := time.Now()
		_, err := p.Wait(t.Context(), "k", 3)
		require.ErrorIs(t, err, ErrTooLarge)
		require.EqualError(t, err, "pacer: n is 3, must be at most Burst, which is 2")
		leave(t, p, start, "k", 2)
		for range 2 {
			go func() { _, _ = p.Wait(t.Context(), "k", 1) }()
		}
		synctest.Wait()
		release, err := p.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, ErrQueueFull)
		require.Nil(t, release)
		var refused interface{ Refused() bool }
		require.ErrorAs(t, err, &refused)
		require.True(t, refused.Refused())
		_, err = p.Wait(t.Context(), "other", 1)
		require.NoError(t, err, "a full queue refuses only who would wait")
		require.Zero(t, time.Since(start))
		time.Sleep(2 * time.Second)
		require.Equal(t, 3*time.Second, leave(t, p, start, "k", 1), "refusals cost nothing")
	})
}

// A wait that would outlive the deadline is refused before anything is taken:
// golang/go#54541.
func TestRefusesWhatWouldOutliveTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), Burst: 1}
		start := time.Now()
		leave(t, p, start, "k", 1)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { leave(t, p, start, "k", 1) })
		}
		synctest.Wait()
		for _, c := range []struct {
			deadline time.Duration
			ok       bool
		}{{3999 * ms, false}, {4000 * ms, false}, {4001 * ms, true}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			if c.ok {
				_, err := p.Wait(ctx, "k", 1)
				require.NoError(t, err)
				require.Equal(t, 4*time.Second, time.Since(start))
			} else {
				_, err := p.Wait(ctx, "k", 1)
				var late *WaitError
				require.ErrorAs(t, err, &late)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, 4*time.Second, late.Wait)
				require.True(t, late.Refused() && late.Timeout())
				require.Zero(t, time.Since(start))
			}
			cancel()
		}
		wg.Wait()
		short := &Pacer{Rate: Per(1, time.Minute), MaxWait: 90 * time.Second}
		start = time.Now()
		leave(t, short, start, "k", 1)
		wg.Go(func() { require.Equal(t, time.Minute, leave(t, short, start, "k", 1)) })
		synctest.Wait()
		_, err := short.Wait(t.Context(), "k", 1)
		var late *WaitError
		require.ErrorAs(t, err, &late)
		require.Equal(t, 2*time.Minute, late.Wait)
		wg.Wait()
	})
}

func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second)}
		start := time.Now()
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		release, err := p.Wait(ctx, "k", 1)
		require.Nil(t, release)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.Zero(t, leave(t, p, start, "k", 1), "what had ended cost nothing")

		// The one in the middle goes; who follows moves up.
		ctx, cancel = context.WithCancelCause(t.Context())
		got := make(chan string, 3)
		for i, ctx := range []context.Context{t.Context(), ctx, t.Context()} {
			go func() {
				release, err := p.Wait(ctx, "k", 1)
				if err == nil {
					release()
				}
				got <- fmt.Sprint(i, " ", time.Since(start), " ", err)
			}()
			synctest.Wait()
		}
		time.Sleep(500 * ms)
		cancel(why)
		assert.Equal(t, "1 500ms pacer: context canceled: why", <-got)
		assert.Equal(t, "0 1s <nil>", <-got)
		assert.Equal(t, "2 2s <nil>", <-got)

		// The first goes at the instant it could have left.
		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		go func() { _, _ = p.Wait(ctx, "k", 1) }()
		synctest.Wait()
		assert.LessOrEqual(t, leave(t, p, start, "k", 1), 4*time.Second)
		assert.GreaterOrEqual(t, time.Since(start), 3*time.Second)
	})
}

func TestMaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{MaxInFlight: 2}
		start := time.Now()
		var wg sync.WaitGroup
		got := make(chan time.Duration, 6)
		for range 6 {
			wg.Go(func() {
				release, err := p.Wait(t.Context(), "k", 1)
				require.NoError(t, err)
				got <- time.Since(start)
				time.Sleep(time.Second)
				release()
			})
		}
		wg.Wait()
		close(got)
		var all []time.Duration
		for at := range got {
			all = append(all, at)
		}
		require.Equal(t, "[0s 0s 1s 1s 2s 2s]", fmt.Sprint(all))

		_, err := p.Wait(t.Context(), "a", 1)
		require.NoError(t, err)
		_, err = p.Wait(t.Context(), "a", 1)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Wait(ctx, "a", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 4*time.Second, time.Since(start))
		_, err = p.Wait(t.Context(), "a", 1)
		var late *WaitError
		require.ErrorAs(t, err, &late, "MaxWait ends a wait of unknown length too")
		require.Equal(t, 4*time.Second+5*time.Minute, time.Since(start))
	})
}

func TestOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(10, time.Second), Burst: 4}
		leave(t, p, time.Now(), "k", 4)
		var wg sync.WaitGroup
		got := make(chan int, 50)
		for i := range 50 {
			time.Sleep(ms)
			wg.Go(func() {
				_, err := p.Wait(t.Context(), "k", int64(i%4+1))
				assert.NoError(t, err)
				got <- i
			})
		}
		wg.Wait()
		for i := range 50 {
			require.Equal(t, i, <-got)
		}
	})
}

func TestPacedTellsEachGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var got []string
		ctx := observe.With(t.Context(), &observe.Hooks{Paced: func(_ context.Context, e observe.Paced) {
			got = append(got, fmt.Sprintf("%s %d %v %q %v", e.Key, e.N, e.Wait, e.Reason, e.At.Sub(start)))
		}})
		p := &Pacer{Rate: Per(1, time.Second), MaxInFlight: 1, rand: func() float64 { return 0 }}
		release, err := p.Wait(ctx, "k", 1)
		require.NoError(t, err)
		time.AfterFunc(3*time.Second, release)
		_, err = p.Wait(ctx, "k", 1)
		require.NoError(t, err)
		_, err = p.Wait(ctx, "a", 1)
		require.NoError(t, err)
		p.Hold("b", time.Now().Add(2*time.Second))
		_, err = WaitAll(ctx, Claim{p, "b", 2}, Claim{p, "c", 0})
		require.NoError(t, err)
		_, err = new(Pacer).Wait(ctx, "k", 1)
		require.NoError(t, err, "what nothing paces is not reported")
		require.Equal(t, []string{
			`k 1 0s "" 0s`, `k 1 3s "in-flight" 3s`, `a 1 0s "" 3s`, `b 2 3s "pace" 6s`, `c 0 0s "" 6s`,
		}, got)
	})
}

// Of several claims the one that was missing last has the wait.
func TestPacedTellsWhichClaimWasMissing(t *testing.T) {
	for _, c := range []struct {
		name       string
		want       []string
		held, tick time.Duration // how long "held" is held, and "paced" has no token
	}{
		{"all ready", []string{`held 0s ""`, `paced 0s ""`, `shared 0s ""`}, 0, 0},
		{"a hold", []string{`held 2s "hold"`, `paced 0s ""`, `shared 0s ""`}, 2 * time.Second, 0},
		{"a pace", []string{`held 0s ""`, `paced 3s "pace"`, `shared 0s ""`}, 0, 3 * time.Second},
		{"both, the hold longer", []string{`held 3s "hold"`, `paced 0s ""`, `shared 0s ""`}, 3 * time.Second, 2 * time.Second},
		{"both, the pace longer", []string{`held 0s ""`, `paced 3s "pace"`, `shared 0s ""`}, 2 * time.Second, 3 * time.Second},
		{"both together", []string{`held 2s "hold"`, `paced 0s ""`, `shared 0s ""`}, 2 * time.Second, 2 * time.Second},
	} {
		for _, spent := range []bool{false, true} { // what the store keeps, by four seconds
			t.Run(fmt.Sprint(c.name, ", store spent: ", spent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					held := &Pacer{rand: func() float64 { return 0 }}
					paced := &Pacer{Rate: Per(1, max(1, c.tick))}
					shared := &Pacer{Rate: Per(1, 4*time.Second), Burst: 1, Shared: newStore()}
					leave(t, paced, time.Now(), "paced", 1)
					want := c.want
					if spent {
						leave(t, shared, time.Now(), "shared", 1)
						want = []string{`held 0s ""`, `paced 0s ""`, `shared 4s "pace"`}
					}
					held.Hold("held", time.Now().Add(c.held))
					var got []string
					ctx := observe.With(t.Context(), &observe.Hooks{Paced: func(_ context.Context, e observe.Paced) {
						got = append(got, fmt.Sprintf("%s %v %q", e.Key, e.Wait, e.Reason))
					}})
					_, err := WaitAll(ctx, Claim{held, "held", 1}, Claim{paced, "paced", 1}, Claim{shared, "shared", 1})
					require.NoError(t, err)
					assert.Equal(t, want, got)
				})
			})
		}
	}
}

// A pacer outlives the clock it was first used under.
func TestClockThatLeaps(t *testing.T) {
	p := &Pacer{Rate: Per(1000, time.Second), MaxInFlight: 5}
	for range 20 {
		for range 7 {
			leave(t, p, time.Now(), "k", 1)
		}
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			for range 7 {
				leave(t, p, start, "k", 1)
			}
			p.Hold("k", start.Add(20*ms))
			require.Less(t, leave(t, p, start, "k", 1), 30*ms)
		})
	}
	require.Less(t, p.at, int64(time.Hour), "no leap counts as time")
}

func TestFreeKeyCostsNoLock(t *testing.T) {
	p := new(Pacer)
	ctx := t.Context()
	leave(t, p, time.Now(), "k", 1)
	r := p.lock()
	defer r.mu.Unlock()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		release, _ := p.Wait(ctx, "k", 1)
		release()
	}))
}
