//go:build !race

package integration

// few are all cases, but for the race detector.
func few[T any](all []T) []T { return all }

// rounds is all n rounds of a test, but for the race detector.
func rounds(n int) int { return n }
