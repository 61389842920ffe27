package vectors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
)

// New makes the limit, under this name.
func (v Limit) New(t testing.TB, name string) *limiter.Limit {
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
	require.Equal(t, v.Algorithm, l.Kind())
	return l
}
