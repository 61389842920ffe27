package provider

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A story of instants, senders, and which limit refuses for how long.
func TestLimitsAreTakenFromAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newLimits()
		require.NoError(t, err)
		begin := time.Now()
		for i, s := range []struct {
			at     time.Duration
			sender string
			times  int // that are let go
			limit  string
			wait   time.Duration // of one more
		}{
			{0, "a", 2, "sender", time.Second},
			{250 * time.Millisecond, "a", 0, "sender", 750 * time.Millisecond},
			{time.Second, "a", 1, "sender", time.Second},
			{time.Hour, "a", 2, "sender", time.Second}, // nothing piles up over the burst
			{time.Hour, "b", 2, "sender", time.Second},
			{time.Hour, "c", 2, "sender", time.Second},
			{time.Hour, "d", 2, "sender", time.Second},
			{time.Hour, "e", 2, "sender", time.Second},
			{time.Hour, "f", 2, "sender", time.Second},
			{time.Hour, "g", 2, "sender", time.Second},
			{time.Hour, "h", 2, "sender", time.Second},
			{time.Hour, "i", 2, "sender", time.Second},
			{time.Hour, "j", 2, "sender", time.Second}, // the longer wait is told
			{time.Hour, "k", 0, "account", 100 * time.Millisecond},
			{time.Hour + 200*time.Millisecond, "k", 2, "sender", time.Second}, // what was refused has cost k nothing,
			{time.Hour + 300*time.Millisecond, "a", 0, "sender", 700 * time.Millisecond},
			{time.Hour + 300*time.Millisecond, "l", 1, "account", 100 * time.Millisecond}, // nor, what a was refused, the account
		} {
			time.Sleep(s.at - time.Since(begin))
			for range s.times {
				refused, err := l.take(t.Context(), s.sender)
				require.NoError(t, err)
				assert.Nil(t, refused, "step %d", i)
			}
			refused, err := l.take(t.Context(), s.sender)
			require.NoError(t, err)
			assert.Equal(t, &Refusal{Limit: s.limit, Wait: s.wait}, refused, "step %d", i)
		}
	})
}
