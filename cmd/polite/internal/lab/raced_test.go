//go:build race

package lab

// raced says that the race detector is on.
const raced = true
