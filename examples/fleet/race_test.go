//go:build race

package main

// raced says that the race detector is on: then an answer within 50 ms cannot be
// expected of a Redis that is interpreted in here.
const raced = true
