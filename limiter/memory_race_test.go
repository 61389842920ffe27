//go:build race

package limiter

// raced says that the race detector is on: it makes sync.Pool forget at random.
const raced = true

// rounds is how many of n rounds of one test are made with the race detector,
// which makes them ten times as slow and finds a race in the first few.
func rounds(n int) int { return max(1, n/10) }
