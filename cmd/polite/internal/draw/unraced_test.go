//go:build !race

package draw

// raced says that the race detector is on.
const raced = false
