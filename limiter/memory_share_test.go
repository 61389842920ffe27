package limiter

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// crowded is a Memory in which no key finds room any more for two days.
func crowded(t *testing.T) *Memory {
	m := &Memory{MaxKeys: 100}
	hold := must(FixedWindow("hold", 1, 48*time.Hour, ToFirst))
	for i := range m.MaxKeys {
		require.True(t, take(t, m, hold, strconv.Itoa(i), 1).Allowed)
	}
	return m
}

// TestOverflowHasOneWindow: keys in overflow share a window as well, wherever a
// key of its own would have it begin.
func TestOverflowHasOneWindow(t *testing.T) {
	for _, align := range []Alignment{ToClock, ToFirst, ToClockPerKey} {
		synctest.Test(t, func(t *testing.T) {
			m := crowded(t)
			l := must(FixedWindow("f", 10, time.Minute, align))
			day := must(FixedWindow("day", 1000, 24*time.Hour, align))
			var first, last string // of those that an attacker has tried, the shifts that differ most
			for i := range 10_000 {
				k := "k" + strconv.Itoa(i)
				if s := l.rule.Shift(k); first == "" || s < l.rule.Shift(first) {
					first = k
				} else if s > l.rule.Shift(last) {
					last = k
				}
			}
			begin, admitted := time.Now(), 0
			ask := func(keys ...string) {
				charges := make([]Charge, 0, 4)
				for _, k := range keys {
					charges = append(charges, l.Charge(k, 1), day.Charge(k, 1))
				}
				d, err := m.Take(t.Context(), charges...)
				require.NoError(t, err)
				require.True(t, d.Overflow)
				if d.Allowed {
					admitted += len(keys)
				} else if d.By == l {
					require.Equal(t, d.RetryAfter, m.untilMore(&charges[0], 0, true))
					require.LessOrEqual(t, d.RetryAfter, time.Minute-time.Since(begin), "the window goes on")
				}
			}
			for i := 0; time.Since(begin) < time.Minute; i++ {
				ask(first)
				ask(last)
				ask(last, first)
				ask("k" + strconv.Itoa(i))
				require.NoError(t, m.Refund(t.Context(), l.Charge(first, 1)), "what may be others' is not given back")
				time.Sleep(time.Minute / time.Duration(rounds(6000)))
			}
			require.Equal(t, 10, admitted, align)
			m.consistent(t)
		})
	}
}
