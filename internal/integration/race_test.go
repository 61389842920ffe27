//go:build race

package integration

// few are the first and the last of many cases that differ in figures alone: the
// race detector makes them take ten times as long, and finds a race in any.
func few[T any](all []T) []T { return []T{all[0], all[len(all)-1]} }

// rounds is how many of n rounds of one test are made with the race detector.
func rounds(n int) int { return n / 2 }
