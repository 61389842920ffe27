package redisstore

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func closeClient(tb testing.TB, c Client) {
	tb.Helper()
	require.NoError(tb, c.(io.Closer).Close())
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
