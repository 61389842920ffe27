//go:build race

package main

// rounds is how often each way is tried: the race detector makes a Redis within
// the program slow, and finds a race in the first few.
const rounds = 3
