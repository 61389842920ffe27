package redisstore

import (
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func closeClient(tb testing.TB, c Client) {
	tb.Helper()
	require.NoError(tb, c.(io.Closer).Close())
}

// long says that the long tests run.
var long = os.Getenv("POLITE_LONG") != ""

// times is how often a test does what it can do any number of times: where the
// race detector makes it take ten times as long, a fifth will do.
func times(n int) int {
	if raced && !long {
		return max(n/5, 1)
	}
	return n
}

// few is 1 where the race detector has nothing to find, for all is in scripts.
func few(n int) int {
	if raced && !long {
		return 1
	}
	return n
}

// prepared is the circuit of s, ready for use.
func (c *circuit) prepared(s *Store) *circuit {
	c.once.Do(func() { c.prepare(s.Client, s.Timeout) })
	return c
}

// at returns the quantile of durations, which it sorts.
func at(took []time.Duration, quantile float64) time.Duration {
	slices.Sort(took)
	return took[min(len(took)-1, int(quantile*float64(len(took))))]
}
