//go:build race

package main

// raced says that the race detector is on: then the long runs send less, and no
// figure of theirs means anything.
const raced = true
