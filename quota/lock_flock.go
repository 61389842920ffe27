//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package quota

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockFile takes the lock, or says which process has it. The kernel releases it
// with the process. The file is never removed: whoever waits for a removed one
// would get a lock that nobody else sees.
func lockFile(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		// Only a help for whoever is refused: if it cannot be written, so be it.
		if f.Truncate(0) == nil {
			_, _ = f.WriteString(strconv.Itoa(os.Getpid()))
		}
		return f, nil
	}
	defer f.Close()
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("cannot lock %s: %w", name, err)
	}
	holder, _ := io.ReadAll(io.LimitReader(f, 20))
	if pid := strings.TrimSpace(string(holder)); pid != "" {
		return nil, fmt.Errorf("%w (process %s)", ErrInUse, pid)
	}
	return nil, ErrInUse
}

// syncDir makes a rename durable.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
