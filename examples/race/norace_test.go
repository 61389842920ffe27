//go:build !race

package main

// rounds is how often each way is tried.
const rounds = 20
