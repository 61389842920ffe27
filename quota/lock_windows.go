package quota

import (
	"errors"
	"io"
	"os"
	"syscall"
)

const errorSharingViolation syscall.Errno = 32

// lockFile opens the file for this process alone. The kernel closes it with the
// process.
func lockFile(name string) (io.Closer, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	const shareWithNobody = 0
	h, err := syscall.CreateFile(path, syscall.GENERIC_READ|syscall.GENERIC_WRITE, shareWithNobody, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, errorSharingViolation):
		return nil, ErrInUse
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

// syncDir does nothing: Windows cannot sync a directory, and NTFS keeps renames
// in its journal.
func syncDir(string) error { return nil }
