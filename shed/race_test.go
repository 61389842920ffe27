//go:build race

package shed_test

import "testing"

// large skips a test that simulates much, all at one moment after another: the
// race detector finds what it can in others, and takes ten times as long.
func large(t *testing.T) {
	t.Helper()
	t.Skip("simulates much: without -race")
}

// fewer are some of the cases that differ in figures alone.
func fewer[T any](all []T) []T { return all[len(all)-1:] }
