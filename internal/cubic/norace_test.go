//go:build !race

package cubic

import "testing"

// rounds is all n rounds of a test, but for the race detector.
func rounds(n int) int { return n }

func large(*testing.T) {}
