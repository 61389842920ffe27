package rttest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// upload is a request's body that knows what was done to it. It is an
// [io.ReadSeeker], as a file is, though nobody may seek in it.
type upload struct {
	mu     sync.Mutex // two readers at once are a fault to report, not to crash on
	data   *strings.Reader
	pause  time.Duration // before each Read: a slow disk
	atEnd  func()        // at io.EOF: the moment to set a trailer
	bytes  atomic.Int64
	seeks  atomic.Int64
	closes atomic.Int64
}

func (u *upload) Read(p []byte) (int, error) {
	if u.pause > 0 {
		time.Sleep(u.pause)
	}
	if u.closes.Load() > 0 {
		return 0, errors.New("rttest: read on a closed request body")
	}
	u.mu.Lock()
	n, err := u.data.Read(p)
	u.mu.Unlock()
	u.bytes.Add(int64(n))
	if errors.Is(err, io.EOF) && u.atEnd != nil {
		u.atEnd()
	}
	return n, err
}

func (u *upload) Seek(offset int64, whence int) (int64, error) {
	u.seeks.Add(1)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.data.Seek(offset, whence)
}

func (u *upload) Close() error {
	u.closes.Add(1)
	return nil
}

// uploads are the bodies of one call: the caller's own, then GetBody's.
type uploads struct {
	data  string
	fail  error // GetBody's
	pause time.Duration
	atEnd func(n int) // n: which body ended

	mu  sync.Mutex
	all []*upload
}

func (u *uploads) next() *upload {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := &upload{data: strings.NewReader(u.data), pause: u.pause}
	u.all = append(u.all, b)
	if n := len(u.all); u.atEnd != nil {
		b.atEnd = func() { u.atEnd(n) }
	}
	return b
}

// getBody has the type of [http.Request.GetBody].
func (u *uploads) getBody() (io.ReadCloser, error) {
	if u.fail != nil {
		return nil, u.fail
	}
	return u.next(), nil
}

func (u *uploads) first() *upload { return u.bodies()[0] }

func (u *uploads) bodies() []*upload {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.all
}

// put is a request that may be repeated and has a body that can be.
func (t *trial) put(u *uploads) *http.Request {
	if u.data == "" {
		u.data = "hello"
	}
	r := t.request(http.MethodPut, u.next())
	r.ContentLength = int64(len(u.data))
	r.GetBody = u.getBody
	return r
}
