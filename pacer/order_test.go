package pacer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// departures starts a call of each kind a millisecond after the one before,
// and returns who left when.
type departures struct {
	sync.WaitGroup
	mu    sync.Mutex
	start time.Time
	got   []string
}

func (d *departures) call(t *testing.T, ctx context.Context, name string, claims ...Claim) {
	d.Go(func() {
		release, err := WaitAll(ctx, claims...)
		if !assert.NoError(t, err, name) {
			return
		}
		d.mu.Lock()
		d.got = append(d.got, fmt.Sprintf("%s %v", name, time.Since(d.start)))
		d.mu.Unlock()
		release()
	})
	synctest.Wait()
}

func TestWaitAllTakesFromNoneBeforeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account := &Pacer{Rate: Per(10, time.Second), Burst: 2}
		sender := &Pacer{Rate: Per(1, time.Second), Burst: 1}
		d := &departures{start: time.Now()}
		both := func(s string) []Claim { return []Claim{{account, "a", 1}, {sender, s, 1}} }
		d.call(t, t.Context(), "s1", both("s1")...)
		d.call(t, t.Context(), "s1 again", both("s1")...) // waits for its sender...
		d.call(t, t.Context(), "s2", both("s2")...)       // ...and is passed over
		d.call(t, t.Context(), "s3", both("s3")...)
		d.call(t, t.Context(), "alone", Claim{account, "a", 1})
		d.call(t, t.Context(), "sender alone", Claim{sender, "s1", 1}) // after the one before it
		d.Wait()
		assert.Equal(t, []string{"s1 0s", "s2 0s", "s3 100ms", "alone 200ms", "s1 again 1s", "sender alone 2s"}, d.got)
		assert.Zero(t, account.Stats().Waiting)
	})
}

func TestClaimsOfOneKeyAreSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(10, time.Second), Burst: 5, MaxInFlight: 1}
		release, err := WaitAll(t.Context(), Claim{p, "k", 2}, Claim{nil, "k", 9}, Claim{p, "k", 3})
		require.NoError(t, err)
		release()
		start := time.Now()
		assert.Equal(t, 100*ms, leave(t, p, start, "k", 1))
		_, err = WaitAll(t.Context(), Claim{p, "k", 2}, Claim{p, "k", 4})
		assert.ErrorIs(t, err, ErrTooLarge)
		_, err = WaitAll(t.Context(), Claim{p, "k", 2}, Claim{p, "j", 6})
		assert.ErrorIs(t, err, ErrTooLarge)
		release, err = WaitAll(t.Context())
		require.NoError(t, err)
		release()
		assert.Equal(t, 200*ms, leave(t, p, start, "k", 1), "refusals took nothing")
	})
}

// A claim that needs more than is there keeps its place in line.
func TestLargeClaimIsNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(10, time.Second), Burst: 10}
		leave(t, p, time.Now(), "k", 10)
		d := &departures{start: time.Now()}
		d.call(t, t.Context(), "large", Claim{p, "k", 10})
		d.call(t, t.Context(), "small", Claim{p, "k", 1})
		d.Wait()
		assert.Equal(t, []string{"large 1s", "small 1.1s"}, d.got)
	})
}

// Whoever is passed over for its other claim is so transitively: its other
// line may be ready but for somebody before it.
func TestPassedOverForWhoIsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Pacer{Rate: Per(1, time.Second), Burst: 1}
		b := &Pacer{Rate: Per(1, time.Second), Burst: 5}
		leave(t, b, time.Now(), "b", 3)
		d := &departures{start: time.Now()}
		d.call(t, t.Context(), "b 5", Claim{b, "b", 5})                   // 2 are there
		d.call(t, t.Context(), "a+b", Claim{a, "a", 1}, Claim{b, "b", 1}) // b is not its turn
		d.call(t, t.Context(), "a", Claim{a, "a", 1})
		d.Wait()
		assert.Equal(t, []string{"a 0s", "b 5 3s", "a+b 4s"}, d.got)
	})
}

func TestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1, time.Second), Burst: 1}
		leave(t, p, time.Now(), "k", 1)
		d := &departures{start: time.Now()}
		night := WithPriority(t.Context(), Background)
		for i := range 3 {
			d.call(t, night, fmt.Sprint("night ", i), Claim{p, "k", 1})
		}
		for i := range 20 {
			d.call(t, WithPriority(t.Context(), Interactive), fmt.Sprint("day ", i), Claim{p, "k", 1})
		}
		d.Wait()
		var want []string
		day, n := 0, 0
		for i := range 23 {
			name := ""
			if (i+1)%10 == 0 || day == 20 {
				name, n = fmt.Sprint("night ", n), n+1
			} else {
				name, day = fmt.Sprint("day ", day), day+1
			}
			want = append(want, fmt.Sprint(name, " ", time.Duration(i+1)*time.Second))
		}
		assert.Equal(t, want, d.got)
	})
}

// However much is Interactive, and however small: a large Background call gets
// its units.
func TestBackgroundIsNeverStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(100, time.Second), Burst: 20, MaxWait: -1}
		leave(t, p, time.Now(), "k", 20)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				for {
					if _, err := p.Wait(ctx, "k", 1); err != nil {
						return
					}
				}
			})
		}
		start := time.Now()
		night := WithPriority(t.Context(), Background)
		for i := range 10 {
			_, err := p.Wait(night, "k", 20)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(start), time.Duration(i+1)*300*ms)
		}
		stop()
		wg.Wait()
	})
}

// Two keys that never rest do not starve a call that needs both.
func TestBothKeysBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Pacer{Rate: Per(10, time.Second), Burst: 1, MaxWait: -1}
		b := &Pacer{Rate: Per(7, time.Second), Burst: 1, MaxWait: -1}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		left := map[*Pacer]int{}
		var mu sync.Mutex
		for _, p := range []*Pacer{a, a, a, b, b, b} {
			wg.Go(func() {
				for {
					if _, err := p.Wait(ctx, "k", 1); err != nil {
						return
					}
					mu.Lock()
					left[p]++
					mu.Unlock()
				}
			})
		}
		time.Sleep(1050 * ms)
		start := time.Now()
		for range 10 {
			_, err := WaitAll(t.Context(), Claim{a, "k", 1}, Claim{b, "k", 1})
			require.NoError(t, err)
		}
		took := time.Since(start)
		assert.Less(t, took, 10*(patience+300*ms))
		stop()
		wg.Wait()
		assert.InDelta(t, 10*took.Seconds(), left[a], 20, "it costs the others little")
		assert.InDelta(t, 7*took.Seconds(), left[b], 20)
	})
}

// The expected wait counts who is before, in both classes, and leaves out who
// waits for something else.
func TestExpectedWaitIsThatOfTheQueue(t *testing.T) {
	for _, c := range []struct {
		name  string
		queue func(call func(class Priority, claims ...Claim), p, other *Pacer)
		class Priority
		want  time.Duration
	}{
		{"behind its class", func(call func(Priority, ...Claim), p, _ *Pacer) {
			for range 5 {
				call(Interactive, Claim{p, "k", 2})
			}
		}, Interactive, 11 * time.Second},
		{"before the other", func(call func(Priority, ...Claim), p, _ *Pacer) {
			for range 5 {
				call(Background, Claim{p, "k", 2})
			}
		}, Interactive, time.Second},
		{"behind both", func(call func(Priority, ...Claim), p, _ *Pacer) {
			for range 5 {
				call(Background, Claim{p, "k", 1})
				call(Interactive, Claim{p, "k", 2})
			}
		}, Background, 16 * time.Second},
		{"the other has turns", func(call func(Priority, ...Claim), p, _ *Pacer) {
			for range 5 {
				call(Background, Claim{p, "k", 1})
			}
			for range 9 {
				call(Interactive, Claim{p, "k", 1})
			}
		}, Interactive, 11 * time.Second},
		{"others are passed over", func(call func(Priority, ...Claim), p, other *Pacer) {
			for range 5 {
				call(Interactive, Claim{p, "k", 1}, Claim{other, "slow", 1})
			}
		}, Interactive, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Pacer{Rate: Per(1, time.Second), Burst: 2}
				other := &Pacer{Rate: Per(1, 100*time.Second), MaxWait: -1}
				leave(t, p, time.Now(), "k", 2)
				leave(t, other, time.Now(), "slow", 1)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				c.queue(func(class Priority, claims ...Claim) {
					wg.Go(func() { _, _ = WaitAll(WithPriority(ctx, class), claims...) })
					synctest.Wait()
				}, p, other)
				at := WithPriority(t.Context(), c.class)
				refused, stop := context.WithTimeout(at, c.want)
				_, err := p.Wait(refused, "k", 1)
				stop()
				var late *WaitError
				require.ErrorAs(t, err, &late)
				require.Equal(t, c.want, late.Wait)
				fits, stop := context.WithTimeout(at, c.want+1)
				start := time.Now()
				_, err = p.Wait(fits, "k", 1)
				stop()
				require.NoError(t, err)
				require.Equal(t, c.want, time.Since(start))
				cancel()
				wg.Wait()
			})
		})
	}
}

// Calls over random sets of keys of five pacers, named in random order, with
// random ends: none hangs, and all leave in the order of arrival where their
// keys are the same.
func TestWaitAllDoesNotDeadlock(t *testing.T) {
	for seed := range uint64(rounds(20)) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var pacers []*Pacer
			for i := range 5 {
				pacers = append(pacers, &Pacer{Rate: Per(int64(20+10*i), time.Second), Burst: 5, MaxInFlight: i, MaxWait: -1})
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			type departure struct {
				call int
				at   time.Time
			}
			left := map[string][]departure{}
			for i := range 300 {
				var claims []Claim
				for _, j := range rnd.Perm(5)[:1+rnd.IntN(3)] {
					claims = append(claims, Claim{pacers[j], string('a' + rune(rnd.IntN(2))), 1 + rnd.Int64N(3)})
				}
				ctx, cancel := context.WithCancel(t.Context())
				ends := rnd.IntN(4) == 0
				if ends {
					time.AfterFunc(time.Duration(rnd.Int64N(int64(2*time.Second))), cancel)
				}
				hold := time.Duration(rnd.Int64N(int64(20 * ms)))
				wg.Go(func() {
					defer cancel()
					release, err := WaitAll(ctx, claims...)
					if err != nil {
						assert.True(t, ends)
						return
					}
					mu.Lock()
					name := sameKeys(claims)
					left[name] = append(left[name], departure{i, time.Now()})
					mu.Unlock()
					time.Sleep(hold)
					release()
				})
				time.Sleep(time.Duration(1 + rnd.Int64N(int64(5*ms))))
			}
			wg.Wait()
			for name, all := range left {
				sort.Slice(all, func(i, j int) bool { return all[i].call < all[j].call })
				for i := 1; i < len(all); i++ {
					assert.False(t, all[i].at.Before(all[i-1].at), name)
				}
			}
			for _, p := range pacers {
				assert.Zero(t, p.Stats().Waiting)
				for _, l := range p.lines {
					assert.Zero(t, l.calls()+l.multi+l.inFlight*p.MaxInFlight)
				}
			}
		})
	}
}

func sameKeys(claims []Claim) string {
	var names []string
	for _, c := range claims {
		names = append(names, fmt.Sprintf("%p %s %d", c.Pacer, c.Key, c.N))
	}
	sort.Strings(names)
	return fmt.Sprint(names)
}

// Rooms are joined in any order from many goroutines at once.
func TestRoomsJoin(t *testing.T) {
	for range 20 {
		pacers := make([]*Pacer, 16)
		for i := range pacers {
			pacers[i] = new(Pacer)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					i, j, k := rand.IntN(16), rand.IntN(16), rand.IntN(16)
					release, err := WaitAll(t.Context(), Claim{pacers[i], "k", 1}, Claim{pacers[j], "k", 1}, Claim{pacers[k], "j", 1})
					if assert.NoError(t, err) {
						release()
					}
				}
			})
		}
		wg.Wait()
		for _, p := range pacers {
			join(p, pacers[0])
			assert.Same(t, pacers[0].home(), p.home())
		}
	}
}
