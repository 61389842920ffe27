package quota

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// log is the open file that lines are appended to.
type log struct {
	path      string
	file      file
	size      int64
	rewriteAt int64  // the size at which it is written anew
	sum       uint32 // of the last line
	buf       []byte
}

// rewriteOver is how large a log may always grow, and rewriteTimes how many
// times as large as when it was written anew.
const (
	rewriteOver  = 1 << 20
	rewriteTimes = 4
)

// encode returns the lines for a batch: one for each count, however many of its
// changes it holds.
func (l *log) encode(b *batch) (lines []byte, sum uint32) {
	lines, sum = l.buf[:0], l.sum
	for _, ch := range b.changes {
		if ch.count.in == b {
			continue
		}
		ch.count.in = b
		lines, sum = appendLine(lines, ch.count, sum)
	}
	if cap(lines) <= rewriteOver {
		l.buf = lines
	}
	return lines, sum
}

func (l *log) append(lines []byte, sum uint32) error {
	n, err := l.file.Write(lines)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("quota: file store %q: %w", l.path, err)
	}
	l.size, l.sum = l.size+int64(n), sum
	return nil
}

func (l *log) close() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

// compact writes the file anew because it has grown. If the new one cannot be
// written the old one stays good.
func (s *FileStore) compact() {
	fresh, err := s.writeNew()
	if err != nil {
		s.log.rewriteAt *= 2
		return
	}
	err = s.replace(fresh)
	s.mu.Lock()
	s.settled(err, false)
	s.mu.Unlock()
}

// rewrite replaces the file, whatever state it is in, by one with every count.
func (s *FileStore) rewrite() error {
	fresh, err := s.writeNew()
	if err != nil {
		return err
	}
	return s.replace(fresh)
}

// writeNew writes every count to a new file beside the old one and syncs it. It
// may hold changes that are still to be appended, which does no harm: a line
// tells the whole count.
func (s *FileStore) writeNew() (fresh log, err error) {
	s.mu.Lock()
	counts := make([]count, 0, len(s.book.counts))
	for _, c := range s.book.counts {
		counts = append(counts, *c)
	}
	s.mu.Unlock()

	lines, sum := appendHeader(nil)
	for i := range counts {
		lines, sum = appendLine(lines, &counts[i], sum)
	}
	tmp := s.path + ".tmp"
	f, err := s.disk.create(tmp)
	if err == nil {
		_, err = f.Write(lines)
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return log{}, fmt.Errorf("quota: file store %q: %w", s.path, err)
	}
	size := int64(len(lines))
	return log{path: s.path, size: size, sum: sum, rewriteAt: max(s.over, rewriteTimes*size)}, nil
}

// replace puts the new file in the old one's place. Until the directory is
// synced a crash may bring the old one back, so nothing is appended before.
func (s *FileStore) replace(fresh log) error {
	err := s.log.close() // Windows renames no open file
	if err == nil {
		err = s.disk.rename(s.path+".tmp", s.path)
	}
	if err == nil {
		err = s.disk.syncDir(filepath.Dir(s.path))
	}
	if err == nil {
		fresh.file, err = s.disk.append(s.path)
	}
	if err != nil {
		return fmt.Errorf("quota: file store %q: %w", s.path, err)
	}
	fresh.buf = s.log.buf
	s.log = fresh
	return nil
}

// disk is what a test makes fail.
type disk interface {
	create(name string) (file, error)
	append(name string) (file, error)
	rename(from, to string) error
	syncDir(name string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

type osDisk struct{}

func (osDisk) create(name string) (file, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

func (osDisk) append(name string) (file, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) syncDir(name string) error    { return syncDir(name) }
