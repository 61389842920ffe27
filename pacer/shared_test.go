package pacer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
)

// store is a Reserver in memory: what several pacers share in these tests.
type store struct {
	mu       sync.Mutex
	start    time.Time
	paid     map[string]int64
	held     map[string]int64
	trip     time.Duration // how long a call takes
	down     error
	asked    int
	canceled int
}

func (s *store) Reserve(ctx context.Context, key string, p Pace, n int64, maxWait time.Duration) (Grant, error) {
	select {
	case <-time.After(s.trip):
	case <-ctx.Done():
		return Grant{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.down != nil {
		return Grant{}, s.down
	}
	now := int64(time.Since(s.start))
	paid := s.paid[key] // the instant by which what was granted is paid for
	at := max(now, s.held[key], paid-p.Rate.span(p.Burst-n))
	wait := time.Duration(at - now)
	if wait > maxWait {
		return Grant{}, &WaitError{Wait: wait}
	}
	next := max(paid, at) + p.Rate.span(n)
	s.paid[key] = next
	return Grant{Wait: wait, Cancel: func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.canceled++
		if s.paid[key] == next { // the latest can be undone
			s.paid[key] = paid
		}
		return nil
	}}, nil
}

func (s *store) Hold(_ context.Context, key string, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[key] = max(s.held[key], int64(time.Since(s.start)+d))
	return s.down
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func newStore() *store {
	return &store{start: time.Now(), paid: map[string]int64{}, held: map[string]int64{}}
}

// Forty processes keep one pace.
func TestSharedPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.trip = ms
		var g ledger
		ctx, cancel := context.WithTimeout(g.on(t.Context()), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 40 {
			p := &Pacer{Rate: Per(100, time.Second), Burst: 10, Shared: s}
			for range 3 {
				wg.Go(func() {
					for {
						if _, err := p.Wait(ctx, "k", 1); err != nil {
							return
						}
					}
				})
			}
		}
		wg.Wait()
		assert.GreaterOrEqual(t, len(g.all["k"]), 1000)
		// A call leaves up to a trip after the instant that the store granted.
		require.NoError(t, g.over(Per(100, time.Second), 11))
	})
}

func TestSharedOrderHoldAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		p := unjittered(&Pacer{Rate: Per(1, time.Second), Burst: 1, Shared: s})
		q := unjittered(&Pacer{Rate: Per(1, time.Second), Burst: 1, Shared: s})
		d := &departures{start: time.Now()}
		d.call(t, t.Context(), "0", Claim{p, "k", 1})
		d.call(t, t.Context(), "1", Claim{p, "k", 1})
		d.call(t, WithPriority(t.Context(), Background), "night", Claim{p, "k", 1})
		d.call(t, t.Context(), "2", Claim{p, "k", 1})
		d.Wait()
		assert.Equal(t, []string{"0 0s", "1 1s", "2 2s", "night 3s"}, d.got)

		// A hold reaches who has an instant of the store, here and elsewhere.
		d = &departures{start: time.Now()}
		d.call(t, t.Context(), "x", Claim{p, "k", 1})
		time.Sleep(500 * ms)
		q.Hold("k", time.Now().Add(5*time.Second))
		p.Hold("k", time.Now().Add(5*time.Second))
		d.call(t, t.Context(), "x", Claim{q, "k", 1})
		d.Wait()
		assert.Equal(t, []string{"x 5.5s", "x 6.5s"}, d.got)
		assert.Equal(t, 1, s.canceled)

		// Who goes gives back; who would wait too long takes nothing.
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*ms, cancel)
		_, err := p.Wait(ctx, "k", 1)
		require.ErrorIs(t, err, context.Canceled)
		short, stop := context.WithTimeout(t.Context(), 100*ms)
		defer stop()
		_, err = p.Wait(short, "k", 1)
		var late *WaitError
		require.ErrorAs(t, err, &late)
		assert.Equal(t, 500*ms, late.Wait)
		require.Equal(t, 500*ms, time.Since(start))
		assert.Equal(t, time.Second, leave(t, p, start, "k", 1))
		assert.Zero(t, p.Stats().Waiting)
	})
}

func TestSharedRateChangesWhileAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		p := &Pacer{Rate: Per(1, time.Minute), Burst: 1, Shared: s}
		start := time.Now()
		leave(t, p, start, "k", 1)
		time.AfterFunc(time.Second, func() {
			p.SetRate(Rate{}, 0) // no rate: no store
		})
		assert.Equal(t, time.Second, leave(t, p, start, "k", 1))
		asked := s.asked
		leave(t, p, start, "k", 1)
		assert.Equal(t, asked, s.asked)
	})
}

// While the store is down each process keeps the pace by itself, and asks
// again ever less often, up to twice a second.
func TestSharedStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.down = errors.New("down")
		p := &Pacer{Rate: Per(10, time.Second), Burst: 3, Shared: s}
		start := time.Now()
		var got []time.Duration
		for range 5 {
			got = append(got, leave(t, p, start, "k", 1))
		}
		assert.Equal(t, "[0s 100ms 200ms 300ms 400ms]", fmt.Sprint(got), "no burst of its own")
		assert.Equal(t, 4, s.asked)
		for range 100 {
			leave(t, p, start, "k", 1)
		}
		assert.InDelta(t, 24, s.asked, 2)
		s.down = nil
		asked := s.asked
		for range 20 {
			leave(t, p, start, "k", 1)
		}
		assert.GreaterOrEqual(t, s.asked, asked+10)
	})
}

// ofMany is a store that says how many processes share it.
type ofMany struct {
	*store
	processes int64
}

func (s ofMany) Share() int64 { return s.processes }

// While the store is down all processes together keep the pace, for each takes
// its share. They do not begin at once.
func TestSharedStoreDownEachAtItsShare(t *testing.T) {
	for _, shape := range []Shape{TokenBucket, LeakyBucket} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			rate := Per(100, time.Second)
			var g ledger
			ctx, cancel := context.WithTimeout(g.on(t.Context()), 20*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for range 10 {
				p := &Pacer{Rate: rate, Burst: 10, Shape: shape, Shared: ofMany{s, 10}}
				wg.Go(func() {
					for {
						if _, err := p.Wait(ctx, "k", 1); err != nil {
							return
						}
					}
				})
			}
			time.Sleep(5 * time.Second)
			s.fail(errors.New("down"))
			time.Sleep(10 * time.Second)
			s.fail(nil)
			wg.Wait()
			down := 0
			until := ledger{all: map[string][]observe.Paced{}}
			for _, e := range g.all["k"] {
				at := e.At.Sub(s.start)
				if at > 5500*ms && at < 15*time.Second {
					down++
				}
				if at < 15*time.Second {
					until.all["k"] = append(until.all["k"], e)
				}
			}
			// Each may be 5 ms ahead of its share, and a unit.
			require.NoError(t, until.over(rate, 10+10+5))
			// The store that is back knows of nothing, and they come within a second.
			require.NoError(t, g.over(rate, 10+10+5+10+50))
			assert.InDelta(t, 950, down, 30, "between 5.5 s and 15 s")
			assert.InDelta(t, 2000, len(g.all["k"]), 60)
		})
	}
}

func TestSharedStoreDownWithoutARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.down = errors.New("down")
		p := &Pacer{Rate: Per(1, time.Second), Shared: ofMany{s, 3}}
		start := time.Now()
		leave(t, p, start, "k", 1)
		time.AfterFunc(time.Second, func() { p.SetRate(Rate{}, 0) })
		assert.Less(t, leave(t, p, start, "k", 1), 5*time.Second)
		p.SetRate(Per(1, time.Second), 0)
		leave(t, p, start, "k", 1)
		p.SetRate(Rate{}, 0)
		at := time.Since(start)
		assert.Equal(t, at, leave(t, p, start, "k", 1))
	})
}

// Several claims: all stores' instants, or none.
func TestSharedWaitAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		fast := &Pacer{Rate: Per(10, time.Second), Burst: 1, Shared: s}
		slow := &Pacer{Rate: Per(1, time.Minute), Burst: 1, Shared: s}
		own := &Pacer{Rate: Per(1, time.Second), Burst: 1}
		start := time.Now()
		all := []Claim{{fast, "f", 1}, {own, "o", 1}, {slow, "s", 1}}
		_, err := WaitAll(t.Context(), all...)
		require.NoError(t, err)
		short, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		_, err = WaitAll(short, all...)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start), "as soon as the store said so")
		assert.Equal(t, time.Second, leave(t, own, start, "o", 1), "nothing was taken")
		assert.Equal(t, time.Second, leave(t, fast, start, "f", 1))
		_, err = WaitAll(t.Context(), all...)
		require.NoError(t, err)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}
