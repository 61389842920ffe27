//go:build race

package limiter

// raced says that the race detector is on: it makes sync.Pool forget at random.
const raced = true
