package redisstore

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// witness notes what Redis grants.
type witness struct {
	Client
	mu  *sync.Mutex
	all *granted
}

func (w witness) Eval(ctx context.Context, s *Script, keys, args []string) ([]string, error) {
	reply, err := w.Client.Eval(ctx, s, keys, args)
	if err == nil && s == reserveScript && reply[0] == "1" {
		receipt := strings.Split(reply[2], ",")
		at, _ := strconv.ParseInt(receipt[1], 10, 64)
		n, _ := strconv.ParseInt(receipt[2], 10, 64)
		w.mu.Lock()
		*w.all = append(*w.all, struct{ at, n int64 }{at, n})
		w.mu.Unlock()
	}
	return reply, err
}

// mostIn returns the most calls in any interval [t, t+d).
func mostIn(d time.Duration, left []time.Duration) (most int) {
	slices.Sort(left)
	from := 0
	for i, at := range left {
		for at-left[from] >= d {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// Forty processes at 1,000 a second: all of it is used, and never more.
func TestFleet(t *testing.T) {
	if os.Getenv("POLITE_LONG") == "" {
		t.Skip("takes 12 s, up to three times: set POLITE_LONG=1")
	}
	const (
		reservers = 40
		rate      = 1000
		lasts     = 11*time.Second + 200*ms
	)
	redis := redistest.Start(t)
	for _, pace := range []pacer.Pace{
		{Rate: pacer.Per(rate, time.Second)},
		{Rate: pacer.Per(rate, time.Second), Burst: 100},
	} {
		burst := max(pace.Burst, 5)
		t.Run("Burst "+strconv.FormatInt(burst, 10), func(t *testing.T) {
			run := func() (sum, most int) {
				var all granted
				var mu sync.Mutex
				var left []time.Duration
				var failed atomic.Int64
				var pacers []*pacer.Pacer
				for range reservers {
					client, err := Rueidis(rueidis.ClientOption{InitAddress: []string{redis.Addr}, ForceSingleClient: true})
					require.NoError(t, err)
					defer closeClient(t, client)
					s := &Store{
						Client: witness{client, &mu, &all}, Processes: reservers,
						OnDegraded: func(error) { failed.Add(1) },
					}
					_, err = s.Reserve(t.Context(), "to connect", pace, 1, time.Minute)
					require.NoError(t, err)
					pacers = append(pacers, &pacer.Pacer{Rate: pace.Rate, Burst: pace.Burst, Shared: s})
				}
				redis.Do("FLUSHALL")
				all = nil
				start := time.Now()
				ctx, cancel := context.WithDeadline(t.Context(), start.Add(lasts))
				defer cancel()
				var wg sync.WaitGroup
				for _, p := range pacers {
					for range 2 { // one may ask while the other leaves
						wg.Go(func() {
							for {
								release, err := p.Wait(ctx, "k", 1)
								if err != nil {
									return
								}
								at := time.Since(start)
								release()
								mu.Lock()
								left = append(left, at)
								mu.Unlock()
							}
						})
					}
				}
				wg.Wait()
				require.NoError(t, all.over(pace, burst), "by the times that were granted")
				for _, at := range left {
					if at >= time.Second && at < 11*time.Second {
						sum++
					}
				}
				most = mostIn(time.Second, left)
				t.Logf("%d left from the second second on, in 10 s; at most %d in any second; %d times Redis failed", sum, most, failed.Load())
				return sum, most
			}
			bound := int(burst) + rate*101/100
			if burst < 10 {
				bound += 50 // a machine that does other things wakes callers late
			}
			var sum, most int
			for range 3 {
				sum, most = run()
				if sum >= rate*10*99/100 && sum <= rate*10*101/100 && most <= bound {
					return
				}
			}
			assert.InDelta(t, rate*10, sum, rate*10/100)
			assert.LessOrEqual(t, most, bound)
		})
	}
}
