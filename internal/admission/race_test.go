//go:build race

package admission

import "testing"

// large skips a test that simulates much, in one goroutine: the race detector
// finds nothing there and takes ten times as long.
func large(t *testing.T) {
	t.Helper()
	t.Skip("simulates much in one goroutine: without -race")
}
