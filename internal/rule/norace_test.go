//go:build !race

package rule

// rounds is all n rounds of a test, but for the race detector.
func rounds(n int) int { return n }
