package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Mini starts a miniredis on a free port: a Redis within the process, which
// knows most commands and is slow at Lua.
func Mini(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	return miniredis.RunT(t)
}
