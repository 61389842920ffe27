//go:build !race

package cubic

// rounds is all n rounds of a test, but for the race detector.
func rounds(n int) int { return n }
