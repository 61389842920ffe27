//go:build race

package retry_test

// rounds is how many of n rounds of one test are made with the race detector,
// which makes them ten times as slow and finds a race in the first few.
func rounds(n int) int { return max(1, n/10) }
