package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHistoryIsFull: keys for whose history there is no room share one that there
// is room for, so many who each come once are all admitted.
func TestHistoryIsFull(t *testing.T) {
	for _, quota := range []int64{5000, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			var m Memory
			l := must(SlidingLog("log", quota, time.Hour))
			shared := 0
			for i := range 20_000 {
				d := take(t, &m, l, fmt.Sprint(i), 1)
				require.True(t, d.Allowed)
				if d.Overflow {
					shared++
				}
			}
			require.Equal(t, 20_000-defaultMaxHistory/int(quota), shared)
			require.LessOrEqual(t, m.Stats().Overflow, len(m.start().shards))
			m.consistent(t)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := Memory{MaxHistory: 500, MaxKeys: 4096}
		l := must(SlidingLog("log", 1100, time.Hour)) // no key has room for that
		for i := range 1200 {
			require.Equal(t, i < 1100, take(t, &m, l, fmt.Sprint(i), 1).Allowed)
		}
		require.Equal(t, 1, m.Stats().Keys)
	})
}

// TestReplacingALongLog: what a long log remembered and a short one need not is
// forgotten, and that changes no decision.
func TestReplacingALongLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m, exact Memory
		long := must(SlidingLog("log", 10_000, time.Hour))
		same := must(SlidingLog("log", 3, time.Hour))
		for i := range 10_000 {
			require.True(t, take(t, &m, long, "k", 1).Allowed)
			if i >= 9_997 {
				require.True(t, take(t, &exact, same, "k", 1).Allowed)
			}
			time.Sleep(time.Millisecond)
		}
		short := must(SlidingLog("log", 3, time.Hour)).Replacing(long)
		for range 5 {
			d, want := take(t, &m, short, "k", 1), take(t, &exact, same, "k", 1)
			d.By, want.By = nil, nil
			require.Equal(t, want, d)
			time.Sleep(d.RetryAfter)
		}
		require.LessOrEqual(t, m.Stats().Bytes-exact.Stats().Bytes, int64(200))
		m.consistent(t)
	})
}
