package limiter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
)

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

func (v vectorLimit) limit(t *testing.T) *limiter.Limit {
	t.Helper()
	var l *limiter.Limit
	var err error
	switch p := v.Params; v.Algorithm {
	case "fixed_window":
		align := limiter.ToFirst
		if p.Aligned {
			align = limiter.ToClock
		}
		l, err = limiter.FixedWindow(v.Name, p.Limit, p.Window, align)
	case "sliding_log":
		l, err = limiter.SlidingLog(v.Name, p.Limit, p.Window)
	case "sliding_counter":
		l, err = limiter.SlidingCounter(v.Name, p.Limit, p.Window)
	case "sliding_buckets":
		l, err = limiter.SlidingBuckets(v.Name, p.Limit, p.Window, p.Cells)
	case "token_bucket":
		l, err = limiter.TokenBucket(v.Name, limiter.Per(p.Count, p.Period), p.Burst)
	case "leaky_meter":
		l, err = limiter.LeakyMeter(v.Name, limiter.Per(p.Count, p.Period), p.Burst)
	case "leaky_queue":
		l, err = limiter.LeakyQueue(v.Name, limiter.Per(p.Count, p.Period), p.Capacity)
	default:
		t.Fatalf("no rule %q", v.Algorithm)
	}
	require.NoError(t, err)
	require.Equal(t, v.Algorithm, l.Kind())
	return l
}

func vectors(t *testing.T, name string, cases any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, cases))
}

// sleepUntil waits in a bubble, whose clock starts in 2000.
func sleepUntil(unix int64) { time.Sleep(time.Until(time.Unix(0, unix))) }

// Every case on one limit, through a Memory.
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
	decisions := 0
	for _, c := range file.Cases {
		t.Run(c.Name+"/"+c.Algorithm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m limiter.Memory
				l := c.limit(t)
				for i, s := range c.Steps {
					decisions++
					sleepUntil(s.At)
					want := limiter.Decision{
						Allowed: s.Allowed, By: l, Quota: l.Quota(), Remaining: s.Remaining,
						ResetAfter: s.Reset, Delay: s.Delay, Never: s.Retry == nil,
					}
					got, err := m.Take(t.Context(), l.Charge("key", s.Cost))
					require.NoError(t, err)
					if s.Retry == nil {
						got.RetryAfter = 0 // meaningless
					} else {
						want.RetryAfter = *s.Retry
					}
					require.Equal(t, want, got, "step %d: %+v", i, s)
				}
			})
		})
	}
	require.Equal(t, 5923, decisions)
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

// Every case on several limits, through a Memory, and some of our own: the same
// limit and key twice, and a queue beside sliding buckets.
func TestStackVectors(t *testing.T) {
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
			t.Run(c.Name, func(t *testing.T) { synctest.Test(t, c.run) })
		}
		require.Equal(t, file.decisions, decisions)
	}
}

func (c stackCase) run(t *testing.T) {
	var m limiter.Memory
	var limits []*limiter.Limit
	index := map[*limiter.Limit]int{}
	for i, v := range c.Limits {
		limits = append(limits, v.limit(t))
		index[limits[i]] = i
	}
	for i, s := range c.Steps {
		sleepUntil(s.At)
		var charges []limiter.Charge
		for _, charge := range s.Charges {
			l := limits[int(charge[0].(float64))]
			charges = append(charges, l.Charge(charge[1].(string), int64(charge[2].(float64))))
		}
		d, err := m.Take(t.Context(), charges...)
		require.NoError(t, err)
		say := fmt.Sprintf("step %d: %+v: %+v", i, s, d)
		require.Equal(t, s.Allowed, d.Allowed, say)
		require.Equal(t, s.Never, d.Never, say)
		require.NotNil(t, d.By, say)
		if !s.Allowed {
			require.Contains(t, s.By, index[d.By], say)
		}
		if s.Retry != nil && !s.Never {
			require.Equal(t, *s.Retry, d.RetryAfter, say)
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
			if s.Remaining != nil {
				require.Equal(t, s.Remaining[j], e.Remaining, "charge %d of %s", j, say)
				require.Equal(t, s.Reset[j], e.ResetAfter, "charge %d of %s", j, say)
			}
		}
		if s.Remaining != nil {
			require.Equal(t, s.Delay, d.Delay, say)
		}
	}
}

// A window that starts with the clock for each key at an instant of its own
// still admits its quota in each, and no two of these keys start at once.
func TestToClockPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m limiter.Memory
		l, err := limiter.FixedWindow("w", 3, time.Minute, limiter.ToClockPerKey)
		require.NoError(t, err)
		starts := map[time.Duration]string{}
		for _, key := range []string{"", "a", "b", "user-1", "user-2"} {
			d, err := m.Take(t.Context(), l.Charge(key, 3))
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Positive(t, d.ResetAfter)
			require.LessOrEqual(t, d.ResetAfter, time.Minute)
			starts[d.ResetAfter] = key
		}
		require.Len(t, starts, 5)
		require.Equal(t, "user-1", starts[time.Minute-47_622_785_477], "2000 began with a whole minute; see Shift's test")
		time.Sleep(time.Minute - 47_622_785_477 - 1)
		d, err := m.Take(t.Context(), l.Charge("user-1", 1))
		require.NoError(t, err)
		assert.False(t, d.Allowed)
		assert.Equal(t, time.Duration(1), d.RetryAfter)
		time.Sleep(time.Nanosecond)
		d, err = m.Take(t.Context(), l.Charge("user-1", 3))
		require.NoError(t, err)
		assert.True(t, d.Allowed)
		assert.Equal(t, time.Minute, d.ResetAfter)
	})
}
