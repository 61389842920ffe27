// Package journal is a file of JSON lines to which a process that may be killed
// at any instant appends what it did. Each line is written by one call of the
// system, so at most the last one is torn; opening the file removes it.
package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Journal is an open file. It may be used by many goroutines at once.
type Journal struct {
	durable bool

	mu sync.Mutex // one line at a time: waiting for the disk is its purpose
	f  *os.File
}

// Open opens the file, or makes it, and calls each for every line that is
// there. With durable, what Append returned for survives a loss of power too.
func Open[T any](path string, durable bool, each func(T)) (*Journal, error) {
	size, err := read(path, each)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(size), seek(f, size)); err != nil {
		f.Close()
		return nil, err
	}
	return &Journal{durable: durable, f: f}, nil
}

// Read returns the lines of the file, without one that is torn. A file that is
// not there has none.
func Read[T any](path string) (all []T, err error) {
	_, err = read(path, func(v T) { all = append(all, v) })
	return all, err
}

// Append writes one line.
func (j *Journal) Append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(append(line, '\n')); err != nil {
		return err
	}
	if j.durable {
		return j.f.Sync()
	}
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }

// read says where the whole lines end.
func read[T any](path string, each func(T)) (size int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF { // a rest without an end was being written
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return 0, fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		each(v)
		size += int64(len(line))
	}
}

func seek(f *os.File, to int64) error {
	_, err := f.Seek(to, io.SeekStart)
	return err
}
