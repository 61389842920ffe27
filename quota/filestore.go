package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileStore is a Store in a file: what was spent stays spent, whenever the
// process or the machine stops. It belongs to one process at a time, by an
// exclusive lock on a file beside it (PATH.lock; the lock goes with the process,
// the file stays).
//
// Spend and Settle append the new count and return once it is synced to disk;
// calls that come while a sync runs share the next one. Now and then the counts
// are written to a new file (PATH.tmp) that replaces the old one. Counts whose
// period has passed are kept until MaxKeys needs the room, so that a clock that
// was wrong for a while loses nothing.
//
// After a write or sync that failed nothing is granted until all counts have
// been written and synced to a new file, which is tried at most once a second.
type FileStore struct {
	// MaxKeys bounds the counts held as [Memory] says. It may be set before
	// first use; what the file holds already is kept in any case. Zero: 65,536.
	// Negative: unbounded.
	MaxKeys int

	path string
	disk disk
	over int64 // the size below which the file is not written anew
	lock io.Closer

	mu       sync.Mutex // guards the following; not held while a file is written
	book     book       // what was granted, also if it is not on disk yet
	next     *batch     // the changes that are not being written yet
	busy     bool       // somebody leads, or was told to
	failed   error      // the file can no longer be trusted to take appended lines
	failedAt time.Time
	closed   bool
	idle     chan struct{} // non-nil: closed when nobody leads any more

	log log // only the leader's
}

// ErrInUse is what [OpenFile]'s error wraps if another process holds the file,
// or another FileStore of this process.
var ErrInUse = errors.New("in use by another process: a file store belongs to one at a time")

const retryFailed = time.Second

// OpenFile opens the file store at path, or begins one if there is no such file;
// its directory must exist. A last line that a crash cut off is dropped. The
// error is a [*CorruptError] if anything else in the file is not as it was
// written, and wraps [ErrInUse] if it is open already. Close it in the end.
func OpenFile(path string) (*FileStore, error) { return openFile(path, osDisk{}, rewriteOver) }

func openFile(path string, d disk, over int64) (*FileStore, error) {
	// The lock must be the same whatever links lead to the file, and the file
	// that is replaced must be the one that was read.
	name, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		name, err = filepath.EvalSymlinks(filepath.Dir(path))
		name = filepath.Join(name, filepath.Base(path))
	}
	if err != nil {
		return nil, fmt.Errorf("quota: file store %q: %w", path, err)
	}
	lock, err := lockFile(name + ".lock")
	if err != nil {
		return nil, fmt.Errorf("quota: file store %q: %w", path, err)
	}
	s := &FileStore{path: name, disk: d, over: over, lock: lock}
	if err := s.load(); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// load reads the file and writes it anew, which begins it, repairs its end, and
// proves that it can be written.
func (s *FileStore) load() error {
	f, err := os.Open(s.path)
	switch {
	case err == nil:
		s.book, err = readLog(f, s.path)
		f.Close()
		if err != nil {
			return err
		}
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("quota: file store %q: %w", s.path, err)
	}
	return s.rewrite()
}

// Spend is as [Store] says. It does not return before the count is on disk, even
// if ctx ends meanwhile.
func (s *FileStore) Spend(ctx context.Context, t Tally, n int64) (used int64, granted bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	if err := s.enter(t); err != nil {
		return 0, false, err
	}
	c, used, granted, err := s.book.spend(t, n, bound(s.MaxKeys, defaultMaxCounts))
	if err := s.leave(c, n, err); err != nil {
		return 0, false, err
	}
	return used, granted, nil
}

// Settle is as [Store] says.
func (s *FileStore) Settle(ctx context.Context, t Tally, delta, atLeast int64) (used int64, err error) {
	if err := s.enter(t); err != nil {
		return 0, err
	}
	c, used, by, err := s.book.settle(t, delta, atLeast, bound(s.MaxKeys, defaultMaxCounts))
	if err := s.leave(c, by, err); err != nil {
		return 0, err
	}
	return used, nil
}

// Close waits for what is being written and gives the file free. Whatever is
// asked of s afterwards is refused.
func (s *FileStore) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var idle chan struct{}
	if s.busy {
		idle = make(chan struct{})
		s.idle = idle
	}
	s.mu.Unlock()
	if idle != nil {
		<-idle
	}
	return errors.Join(s.log.close(), s.lock.Close())
}

// enter locks s, if s can take a change.
func (s *FileStore) enter(t Tally) error {
	if len(t.Quota) > maxName || len(t.Key) > maxName {
		return fmt.Errorf("quota: file store %q: a name of %d bytes: at most %d are allowed", s.path, max(len(t.Quota), len(t.Key)), maxName)
	}
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return fmt.Errorf("quota: file store %q: %w", s.path, os.ErrClosed)
	case s.resting():
		defer s.mu.Unlock()
		return s.failed
	}
	return nil
}

// resting says whether the file failed so recently that it is not tried again.
func (s *FileStore) resting() bool {
	if s.failed == nil {
		return false
	}
	since := time.Since(s.failedAt)
	return since >= 0 && since < retryFailed
}

// leave unlocks s and returns when the change to c, if there was one, is on
// disk. If it cannot be brought there the change is taken back.
func (s *FileStore) leave(c *count, by int64, err error) error {
	if c == nil || err != nil {
		s.mu.Unlock()
		return err
	}
	if s.next == nil {
		s.next = &batch{done: make(chan struct{}), lead: make(chan struct{}, 1)}
	}
	b := s.next
	b.changes = append(b.changes, change{c, by})
	leads := !s.busy
	s.busy = true
	s.mu.Unlock()
	if !leads {
		select {
		case <-b.done:
			return b.err
		case <-b.lead:
		}
	}
	s.write()
	return b.err
}

// batch is the changes that share one sync. The first of its callers that finds
// nobody at work writes for all; the others wait.
type batch struct {
	changes []change
	done    chan struct{} // closed when err is set
	err     error
	lead    chan struct{} // makes one waiter the next leader
}

type change struct {
	count *count
	by    int64
}

// write brings the next batch to disk and hands the lead on.
func (s *FileStore) write() {
	s.mu.Lock()
	b := s.next
	s.next = nil
	err, resting := s.failed, s.resting()
	var lines []byte
	var sum uint32
	if err == nil {
		lines, sum = s.log.encode(b)
	}
	s.mu.Unlock()

	if err == nil {
		err = s.log.append(lines, sum)
	} else if !resting {
		err = s.rewrite()
	}

	s.mu.Lock()
	s.settled(err, resting)
	if b.err = err; err != nil {
		for _, ch := range b.changes {
			ch.count.used = max(0, ch.count.used-ch.by)
		}
	}
	close(b.done)
	s.mu.Unlock()

	if err == nil && s.log.size >= s.log.rewriteAt {
		s.compact()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		s.next.lead <- struct{}{}
		return
	}
	s.busy = false
	if s.idle != nil {
		close(s.idle)
	}
}

// settled notes how an attempt to write went; s.mu is held.
func (s *FileStore) settled(err error, resting bool) {
	switch {
	case err == nil:
		s.failed = nil
	case !resting:
		s.failed, s.failedAt = err, time.Now()
	}
}
