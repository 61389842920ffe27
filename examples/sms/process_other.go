//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// detach has nothing to do: a child outlives its parent here.
func detach(*exec.Cmd) {}

// lock does not keep others out here: do not start one job twice at once.
func lock(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }
