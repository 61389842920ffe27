package rule

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// vector is a case of limiters.json.
type vector struct {
	Name      string
	Algorithm string
	Params    params
	Steps     []struct {
		At        int64 `json:"t_ns"`
		Cost      int64
		Allowed   bool
		Remaining int64
		Retry     *int64 `json:"retry_after_ns"` // nil: never
		Reset     int64  `json:"reset_after_ns"`
		Delay     int64  `json:"delay_ns"`
	}
}

type params struct {
	Limit    int64
	Window   int64 `json:"window_ns"`
	Aligned  bool
	Cells    int
	Burst    int64
	Capacity int64
	Count    int64
	Period   int64 `json:"period_ns"`
}

func (p params) rule(t *testing.T, algorithm string) *Rule {
	var r *Rule
	var err error
	switch algorithm {
	case "fixed_window":
		align := ToFirst
		if p.Aligned {
			align = ToClock
		}
		r, err = NewFixedWindow(p.Limit, p.Window, align)
	case "sliding_log":
		r, err = NewSlidingLog(p.Limit, p.Window)
	case "sliding_counter":
		r, err = NewSlidingCounter(p.Limit, p.Window)
	case "sliding_buckets":
		r, err = NewSlidingBuckets(p.Limit, p.Window, p.Cells)
	case "token_bucket":
		r, err = NewBucket(TokenBucket, p.Count, p.Period, p.Burst)
	case "leaky_meter":
		r, err = NewBucket(LeakyMeter, p.Count, p.Period, p.Burst)
	case "leaky_queue":
		r, err = NewBucket(LeakyQueue, p.Count, p.Period, p.Capacity)
	default:
		t.Fatalf("no rule %q", algorithm)
	}
	require.NoError(t, err)
	require.Equal(t, algorithm, r.Kind().String())
	return r
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../../limiter/testdata/limiters.json")
	require.NoError(t, err)
	var file struct{ Cases []vector }
	require.NoError(t, json.Unmarshal(text, &file))
	require.Len(t, file.Cases, 101)
	decisions := 0
	for _, c := range file.Cases {
		t.Run(c.Name+"/"+c.Algorithm, func(t *testing.T) {
			key := keep(c.Params.rule(t, c.Algorithm))
			for i, s := range c.Steps {
				decisions++
				want := Verdict{Remaining: s.Remaining, Retry: Never, Reset: s.Reset, Delay: s.Delay}
				if s.Retry != nil {
					want.Retry = *s.Retry
				}
				v := key.take(s.At, s.Cost)
				require.Equal(t, want, v, "step %d: %+v", i, s)
				require.Equal(t, s.Allowed, v.Allowed(), "step %d", i)
			}
		})
	}
	require.Equal(t, 5923, decisions)
}

// key is what one rule remembers of one key, whichever way it does.
type key struct {
	rule  *Rule
	state State
	long  *History
}

func keep(r *Rule) *key { return &key{rule: r, long: &History{}} }

func (k *key) take(now, cost int64) (v Verdict) {
	if k.rule.Long() {
		if v = k.rule.Ask(k.long, now, cost); v.Allowed() {
			k.rule.Charge(k.long, now, cost)
		}
		return v
	}
	k.state, v = k.rule.Take(k.state, now, cost)
	return v
}

func (k *key) refund(now, cost int64) {
	if k.rule.Long() {
		k.rule.Return(k.long, now, cost)
	} else {
		k.state = k.rule.Refund(k.state, now, cost)
	}
}

func (k *key) fresh(now int64) bool {
	if k.rule.Long() {
		return k.rule.Blank(k.long, now)
	}
	return k.rule.Fresh(k.state, now)
}

// copy returns a key that remembers the same.
func (k *key) copy() *key {
	long := *k.long
	long.entries = append([]entry(nil), long.entries...)
	return &key{k.rule, k.state, &long}
}
