//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// detach puts the child into a session of its own, so that neither ctrl-C nor
// the end of the terminal reaches it.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// lock holds the file for this process, as long as it is open; the system lets
// go of it however the process ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 20))
		f.Close()
		return nil, fmt.Errorf("%w: process %s", errLocked, holder)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprint(f, os.Getpid()) // for the message above
	}
	return f, nil
}
