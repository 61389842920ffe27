//go:build !race

package limiter

// raced says that the race detector is on: it makes sync.Pool forget at random.
const raced = false

// rounds is all n rounds of a test, but for the race detector.
func rounds(n int) int { return n }
