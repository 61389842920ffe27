//go:build race

package redisstore

// raced says that the race detector is on: then nothing is as fast as it is.
const raced = true
