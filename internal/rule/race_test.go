//go:build race

package rule

// rounds is how many of n rounds of one test are made with the race detector,
// which has nothing to find in arithmetic and makes it ten times as slow.
func rounds(n int) int { return max(1, n/10) }
