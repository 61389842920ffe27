package pacer

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/internal/provider"
)

// site is a provider that refuses without numbers, as seen through a real
// Pacer that was given no rate.
type site struct {
	pacer    Pacer
	rtt      time.Duration
	start    time.Time
	mu       sync.Mutex
	provider provider.Provider
	log      []provider.Decision
}

// call asks once, in the caller's turn.
func (s *site) call(t *testing.T, rng *rand.Rand) (ok bool) {
	release, err := s.pacer.Wait(t.Context(), "site", 1)
	require.NoError(t, err)
	defer release()
	wire := func() time.Duration { return time.Duration(float64(s.rtt) / 2 * (0.8 + 0.4*rng.Float64())) }
	time.Sleep(wire())
	s.mu.Lock()
	now := int64(time.Since(s.start))
	ok = s.provider.Admit(now)
	s.log = append(s.log, provider.Decision{At: now, OK: ok})
	s.mu.Unlock()
	time.Sleep(wire())
	status := http.StatusOK
	if !ok {
		status = http.StatusTooManyRequests
	}
	s.pacer.Observe("site", headerparse.Signal{Status: status}, time.Now())
	return ok
}

func (s *site) between(from, to time.Duration) (ok, refused float64) {
	return provider.Between(s.log, from, to)
}

// nginx with 20 a second, burst 5, nodelay: 200 calls from 16 goroutines.
func TestPacerLearnsNginx(t *testing.T) {
	for _, rtt := range []time.Duration{200 * time.Microsecond, 20 * time.Millisecond} {
		for seed := range uint64(rounds(10)) {
			t.Run(fmt.Sprint(rtt, " seed ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &site{rtt: rtt, start: time.Now(), provider: &provider.LeakyExcess{Quota: provider.Quota{First: 20}, Burst: 5}}
					var calls sync.WaitGroup
					jobs := make(chan int, 200)
					for i := range cap(jobs) {
						jobs <- i
					}
					close(jobs)
					for g := range uint64(16) {
						rng := rand.New(rand.NewPCG(seed, g))
						calls.Go(func() {
							for range jobs {
								n := 1
								for !s.call(t, rng) {
									if !assert.Less(t, n, 10, "attempts of one call") {
										break
									}
									backoff := min(10*time.Second, 500*time.Millisecond<<(n-1))
									time.Sleep(time.Duration(rng.Int64N(int64(backoff))))
									n++
								}
							}
						})
					}
					calls.Wait()
					ok, refused := s.between(2*time.Second, time.Hour)
					assert.LessOrEqual(t, refused/(ok+refused), 0.04, "%v of %v after the second second", refused, ok+refused)
					assert.Less(t, time.Since(s.start), 12*time.Second)
				})
			})
		}
	}
}

// Fifty workers, 10 ms away, at 100 a second that become 400.
func TestPacerFindsTheLimit(t *testing.T) {
	const change, end = 60 * time.Second, 80 * time.Second
	limit := provider.Quota{First: 100, Then: 400, Change: change}
	kinds := map[string]provider.Provider{
		"tokens of 100 ms": &provider.Tokens{Quota: limit, Holds: 0.1},
		"tokens of 1 s":    &provider.Tokens{Quota: limit, Holds: 1},
		"window of 1 s":    &provider.ClockWindow{Quota: limit},
	}
	for name, refuses := range kinds {
		if rounds(10) < 10 && len(kinds) > 1 { // with the race detector one will do
			delete(kinds, name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &site{rtt: 10 * time.Millisecond, start: time.Now(), provider: refuses}
				var calls sync.WaitGroup
				for g := range uint64(50) {
					rng := rand.New(rand.NewPCG(1, g))
					calls.Go(func() {
						for time.Since(s.start) < end {
							s.call(t, rng)
						}
					})
				}
				calls.Wait()
				first, _ := s.between(0, 5*time.Second)
				assert.GreaterOrEqual(t, first, 5*70.0, "in the first five seconds")
				ok, refused := s.between(5*time.Second, change)
				assert.GreaterOrEqual(t, ok, 0.95*100*55, "use")
				assert.LessOrEqual(t, refused/(ok+refused), 0.01, "refused")
				found := 0.0
				for d := time.Second; d <= 10*time.Second; d += 100 * time.Millisecond {
					n, _ := s.between(change+d-time.Second, change+d)
					found = max(found, n)
				}
				assert.GreaterOrEqual(t, found, 0.9*400, "in the best second of ten after the change")
			})
		})
	}
}

// With a configured rate, one refusal costs little, whenever it comes: at first
// nothing is measured yet that it could start from.
func TestStrayRefusalAtAConfiguredRate(t *testing.T) {
	took := func(rate Rate, burst int64, refused ...int) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			p := &Pacer{Rate: rate, Burst: burst}
			start := time.Now()
			for i := range 200 {
				leave(t, p, start, "k", 1)
				status := http.StatusOK
				if slices.Contains(refused, i) {
					status = http.StatusServiceUnavailable
				}
				p.Observe("k", headerparse.Parse(status, http.Header{}, time.Now()), time.Now())
			}
			took = time.Since(start)
		})
		return took
	}
	rate := Per(20, time.Second)
	require.Equal(t, 9850*ms, took(rate, 3))
	for i := 0; i < 200; i += 200 / rounds(200) {
		assert.LessOrEqual(t, took(rate, 3, i), 10500*ms, "call %d is refused", i)
	}
	assert.LessOrEqual(t, took(rate, 3, 0, 1, 2), 10500*ms, "the whole burst")
	assert.LessOrEqual(t, took(rate, 0, 0), 10500*ms)
	for _, i := range []int{0, 5, 20, 100} {
		assert.LessOrEqual(t, took(Per(2, time.Second), 3, i), 102*time.Second, "call %d at two a second", i)
		assert.LessOrEqual(t, took(Per(200, time.Second), 3, i), 1300*ms, "call %d at 200 a second", i)
	}
}

// What left before the rate changed is paid for at the new one: a refusal that
// overtakes six acceptances makes nobody wait for two seconds.
func TestLearntRateReachesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := new(Pacer), time.Now()
		for range 7 {
			leave(t, p, start, "k", 1)
		}
		p.Observe("k", headerparse.Signal{Status: http.StatusTooManyRequests}, start)
		d := &departures{start: start}
		d.call(t, t.Context(), "waits", Claim{p, "k", 1}) // for two seconds, as it is
		for range 6 {
			p.Observe("k", headerparse.Signal{Status: http.StatusOK}, start)
		}
		d.Wait()
		assert.InDelta(t, 1.0/6, time.Since(start).Seconds(), 0.01)
		time.Sleep(time.Second)

		// And a lower rate makes them wait longer.
		rate := func() float64 { return p.last.Load().learnt.learner.Rate() }
		for range 2 {
			leave(t, p, start, "k", 1)
		}
		d.call(t, t.Context(), "waits", Claim{p, "k", 1})
		before := rate()
		p.Observe("k", headerparse.Signal{Status: http.StatusTooManyRequests}, time.Now())
		after := rate()
		require.Less(t, after, before)
		left := time.Now()
		d.Wait()
		assert.InDelta(t, 1/after, time.Since(left).Seconds(), 0.01)
	})
}

// A configured rate that is fifty, or ten, times too high costs refusals for a
// quarter of a second, and is then as good as none.
func TestConfiguredRateThatIsTooHigh(t *testing.T) {
	for _, c := range []struct {
		name         string
		provider     provider.Provider
		limit, early float64
	}{
		{"leaky as in nginx", &provider.LeakyExcess{Quota: provider.Quota{First: 20}, Burst: 5}, 20, 230},
		{"window of 1 s", &provider.ClockWindow{Quota: provider.Quota{First: 100}}, 100, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &site{rtt: 10 * time.Millisecond, start: time.Now(), provider: c.provider}
				s.pacer.Rate, s.pacer.Burst = Per(1000, time.Second), 3
				var calls sync.WaitGroup
				for g := range uint64(50) {
					rng := rand.New(rand.NewPCG(1, g))
					calls.Go(func() {
						for time.Since(s.start) < 20*time.Second {
							s.call(t, rng)
						}
					})
				}
				calls.Wait()
				_, refused := s.between(0, 2*time.Second)
				assert.LessOrEqual(t, refused, c.early, "refused in the first two seconds")
				ok, refused := s.between(2*time.Second, 20*time.Second)
				assert.LessOrEqual(t, refused/(ok+refused), 0.02, "refused later")
				assert.GreaterOrEqual(t, ok, 0.93*c.limit*18, "use")
			})
		})
	}
}

// Every tenth call is refused, whatever the pace: to learn from that is to slow
// down without an end, unless the rate is said to be right. What is told holds.
func TestTrustRate(t *testing.T) {
	for _, trust := range []bool{false, true} {
		t.Run(fmt.Sprint(trust), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Pacer{Rate: Per(20, time.Second), TrustRate: trust}
				require.NoError(t, p.Check())
				_, ok := p.Learnt("k")
				require.False(t, ok)
				for i := range 200 {
					release, err := p.Wait(t.Context(), "k", 1)
					require.NoError(t, err)
					release()
					status := http.StatusOK
					if i%10 == 9 {
						status = http.StatusServiceUnavailable
					}
					p.Observe("k", headerparse.Signal{Status: status}, time.Time{})
				}
				pace, ok := p.Learnt("k")
				require.Equal(t, !trust, ok)
				if !trust {
					require.Less(t, pace, 5.0)
					return
				}
				for range 2 { // the second within 10 s of the first
					p.Observe("k", headerparse.Signal{Status: http.StatusTooManyRequests, Told: true, Wait: 3 * time.Second}, time.Time{})
					told := time.Now()
					release, err := p.Wait(t.Context(), "k", 1)
					require.NoError(t, err)
					release()
					require.GreaterOrEqual(t, time.Since(told), 3*time.Second)
					require.Less(t, time.Since(told), 4*time.Second)
				}
				_, ok = p.Learnt("k")
				require.False(t, ok)
			})
		})
	}
}
