package redisstore

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func closeClient(tb testing.TB, c Client) {
	tb.Helper()
	require.NoError(tb, c.(io.Closer).Close())
}
