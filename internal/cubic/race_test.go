//go:build race

package cubic

import "testing"

// rounds is how many of n rounds of one test are made with the race detector,
// which makes them ten times as slow and finds a race in the first few.
func rounds(n int) int { return max(1, n/10) }

// large skips a test that simulates much, in one goroutine: the race detector
// finds nothing there and takes ten times as long.
func large(t *testing.T) {
	t.Helper()
	t.Skip("simulates much in one goroutine: without -race")
}
