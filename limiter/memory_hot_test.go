package limiter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The entry of a key that is asked for again and again lies elsewhere. Whatever
// else looks at the key, or moves entries, finds it as it is.
func TestHotEntryIsSeenByAll(t *testing.T) {
	hot := must(TokenBucket("hot", Per(1, time.Hour), 10))
	other := must(TokenBucket("other", Per(1, time.Hour), 10))
	short := must(TokenBucket("short", Per(1000, time.Second), 1))
	for name, disturb := range map[string]func(t *testing.T, m *Memory) (used int){
		"nothing": func(*testing.T, *Memory) int { return 0 },
		"a stack": func(t *testing.T, m *Memory) int {
			d, err := m.Take(t.Context(), hot.Charge("k", 2), other.Charge("k", 1))
			require.NoError(t, err)
			require.True(t, d.Allowed)
			assert.EqualValues(t, 4, d.Each[0].Remaining)
			return 2
		},
		"a refund": func(t *testing.T, m *Memory) int {
			require.NoError(t, m.Refund(t.Context(), hot.Charge("k", 3)))
			return -3
		},
		"another key": func(t *testing.T, m *Memory) int {
			require.True(t, take(t, m, hot, "another", 1).Allowed)
			require.True(t, take(t, m, hot, "another", 1).Allowed)
			require.True(t, take(t, m, hot, "another", 1).Allowed)
			return 0
		},
		"many keys, so that the table grows": func(t *testing.T, m *Memory) int {
			for i := range 1000 {
				take(t, m, other, string(rune('a'+i)), 1)
			}
			return 0
		},
		"sweeps": func(t *testing.T, m *Memory) int {
			for i := range 1000 {
				take(t, m, short, string(rune('a'+i)), 1)
				time.Sleep(time.Millisecond)
			}
			return 0
		},
		"statistics": func(t *testing.T, m *Memory) int {
			assert.Equal(t, 1, m.Stats().Keys)
			m.consistent(t)
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &Memory{MaxKeys: 4096} // one shard
				for i := range 4 {
					assert.EqualValues(t, 9-i, take(t, m, hot, "k", 1).Remaining)
				}
				require.False(t, m.start().shards[0].hot.id.empty(), "it is hot")
				used := disturb(t, m)
				assert.EqualValues(t, 6-used-1, take(t, m, hot, "k", 1).Remaining)
			})
		})
	}
}
