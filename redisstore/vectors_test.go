package redisstore

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// redises runs a test through a real Redis, and through miniredis, which prints
// numbers in another way.
func redises(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("redis", func(t *testing.T) { test(t, redistest.Start(t).Addr) })
	t.Run("miniredis", func(t *testing.T) { test(t, redistest.Mini(t).Addr()) })
}

// storeAt returns a Store with a patient timeout.
func storeAt(t testing.TB, addr string) *Store {
	t.Helper()
	client, err := Rueidis(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, ConnWriteTimeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { closeClient(t, client) })
	return &Store{Client: client, Timeout: 10 * time.Second, NearKeys: -1}
}

// vectorLimit is a limit as the vectors write it.
type vectorLimit struct {
	Name      string
	Algorithm string
	Params    struct {
		Limit    int64
		Window   time.Duration `json:"window_ns"`
		Aligned  bool
		Cells    int
		Burst    int64
		Capacity int64
		Count    int64
		Period   time.Duration `json:"period_ns"`
	}
}

func (v vectorLimit) limit(t *testing.T, name string) *limiter.Limit {
	t.Helper()
	var l *limiter.Limit
	var err error
	switch p := v.Params; v.Algorithm {
	case "fixed_window":
		align := limiter.ToFirst
		if p.Aligned {
			align = limiter.ToClock
		}
		l, err = limiter.FixedWindow(name, p.Limit, p.Window, align)
	case "sliding_log":
		l, err = limiter.SlidingLog(name, p.Limit, p.Window)
	case "sliding_counter":
		l, err = limiter.SlidingCounter(name, p.Limit, p.Window)
	case "sliding_buckets":
		l, err = limiter.SlidingBuckets(name, p.Limit, p.Window, p.Cells)
	case "token_bucket":
		l, err = limiter.TokenBucket(name, limiter.Per(p.Count, p.Period), p.Burst)
	case "leaky_meter":
		l, err = limiter.LeakyMeter(name, limiter.Per(p.Count, p.Period), p.Burst)
	case "leaky_queue":
		l, err = limiter.LeakyQueue(name, limiter.Per(p.Count, p.Period), p.Capacity)
	default:
		t.Fatalf("no rule %q", v.Algorithm)
	}
	require.NoError(t, err)
	return l
}

func vectors(t *testing.T, name string, cases any) {
	t.Helper()
	text, err := os.ReadFile("../limiter/testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, cases))
}

// up is a duration rounded up to what Redis can tell.
func up(d time.Duration) time.Duration { return (d + 999) / 1000 * 1000 }

// clocked makes Redis take the time from the test.
func clocked(s *Store) (now *int64) {
	now = new(int64)
	s.now = func() int64 { return *now }
	return now
}

// Every case on one limit. A time between two microseconds is taken as the
// earlier: a few cases ask at a boundary and a nanosecond before it.
func TestLimiterVectors(t *testing.T) {
	var file struct {
		Cases []struct {
			vectorLimit
			Steps []struct {
				At        int64 `json:"t_ns"`
				Cost      int64
				Allowed   bool
				Remaining int64
				Retry     *time.Duration `json:"retry_after_ns"` // nil: never
				Reset     time.Duration  `json:"reset_after_ns"`
				Delay     time.Duration  `json:"delay_ns"`
			}
		}
	}
	vectors(t, "limiters.json", &file)
	require.Len(t, file.Cases, 101)
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		now := clocked(s)
		decisions := 0
		for n, c := range file.Cases {
			l := c.limit(t, fmt.Sprint("case ", n))
			for i, step := range c.Steps {
				decisions++
				*now = step.At / 1000
				want := limiter.Decision{
					Allowed: step.Allowed, By: l, Quota: l.Quota(), Remaining: step.Remaining,
					ResetAfter: up(step.Reset), Delay: up(step.Delay), Never: step.Retry == nil,
				}
				got, err := s.Take(t.Context(), l.Charge("key", step.Cost))
				require.NoError(t, err)
				if step.Retry == nil {
					got.RetryAfter = 0 // meaningless
				} else {
					want.RetryAfter = up(*step.Retry)
				}
				require.Equal(t, want, got, "%s/%s step %d: %+v", c.Name, c.Algorithm, i, step)
			}
		}
		require.Equal(t, 5923, decisions)
	})
}

// stackCase is a case on several limits and keys at once.
type stackCase struct {
	Name   string
	Limits []vectorLimit
	Steps  []struct {
		At      int64    `json:"t_ns"`
		Charges [][3]any // index of the limit, key, cost
		Allowed bool
		Never   bool
		Retry   *time.Duration `json:"retry_after_ns"`
		By      []int          // the limits that refuse longest: any may be named

		Remaining []int64         // per charge; only in cases of our own
		Reset     []time.Duration `json:"reset_after_ns"`
		Delay     time.Duration   `json:"delay_ns"`
	}
}

// afterDeparture is a time of one case: the first nanosecond after a unit has
// left, which Redis takes for the next microsecond.
const afterDeparture = 1_790_000_000_142_857_143

// Every case on several limits, the same limit and key twice among them.
func TestStackVectors(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		s := storeAt(t, addr)
		for _, file := range []struct {
			name             string
			cases, decisions int
		}{
			{"stacks.json", 40, 2388},
			{"stacks_own.json", 4, 32},
		} {
			var content struct{ Cases []stackCase }
			vectors(t, file.name, &content)
			require.Len(t, content.Cases, file.cases)
			decisions := 0
			for _, c := range content.Cases {
				decisions += len(c.Steps)
				c.run(t, s)
			}
			require.Equal(t, file.decisions, decisions)
		}
	})
}

func (c stackCase) run(t *testing.T, s *Store) {
	now := clocked(s)
	var limits []*limiter.Limit
	index := map[*limiter.Limit]int{}
	for i, v := range c.Limits {
		limits = append(limits, v.limit(t, fmt.Sprint(c.Name, " ", i)))
		index[limits[i]] = i
	}
	for i, step := range c.Steps {
		*now = step.At / 1000
		late := 0.0
		if step.At == afterDeparture {
			*now++
			late = float64(time.Microsecond)
		}
		var charges []limiter.Charge
		for _, charge := range step.Charges {
			l := limits[int(charge[0].(float64))]
			charges = append(charges, l.Charge(charge[1].(string), int64(charge[2].(float64))))
		}
		d, err := s.Take(t.Context(), charges...)
		require.NoError(t, err)
		say := fmt.Sprintf("%s step %d: %+v: %+v", c.Name, i, step, d)
		require.Equal(t, step.Allowed, d.Allowed, say)
		require.Equal(t, step.Never, d.Never, say)
		require.NotNil(t, d.By, say)
		if !step.Allowed {
			require.Contains(t, step.By, index[d.By], say)
		}
		if step.Retry != nil && !step.Never {
			require.InDelta(t, up(*step.Retry), d.RetryAfter, late, say)
		}
		if len(charges) == 1 {
			require.Nil(t, d.Each, say)
			continue
		}
		require.Len(t, d.Each, len(charges), say)
		for j, e := range d.Each {
			require.Equal(t, charges[j].Limit, e.By, say)
			require.Equal(t, charges[j].Limit.Quota(), e.Quota, say)
			require.Nil(t, e.Each, say)
			if step.Remaining != nil {
				require.Equal(t, step.Remaining[j], e.Remaining, "charge %d of %s", j, say)
				require.InDelta(t, up(step.Reset[j]), e.ResetAfter, late, "charge %d of %s", j, say)
			}
		}
		if step.Remaining != nil {
			require.InDelta(t, up(step.Delay), d.Delay, late, say)
		}
	}
}
