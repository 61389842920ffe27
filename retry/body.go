package retry

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"time"
)

// source is a request's body that remembers whether it failed: then what the
// attempt came to says nothing about the provider.
type source struct {
	io.ReadCloser
	failed, closed atomic.Bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !s.closed.Load() { // a base closes what it has given up, maybe during a Read
		s.failed.Store(true)
	}
	return n, err
}

func (s *source) Close() error {
	s.closed.Store(true)
	return s.ReadCloser.Close()
}

var (
	plainNop    = reflect.TypeOf(io.NopCloser(struct{ io.Reader }{}))
	writerToNop = reflect.TypeOf(io.NopCloser(new(bytes.Buffer)))
)

// isInMemory reports whether a body is one of those that http.NewRequest knows.
// They cannot fail, and net/http sends them in one piece with the header, if it
// recognises them, which spares a third of a small call.
func isInMemory(body io.ReadCloser) bool {
	if t := reflect.TypeOf(body); t != plainNop && t != writerToNop {
		return body == nil || body == http.NoBody
	}
	switch reflect.ValueOf(body).Field(0).Interface().(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	return false
}

// upload is a flight with a body. In place of the body it notices its end, from
// where on the attempt is watched.
type upload struct {
	flight
	source
	own terms
}

// begun notes that the base reports events: the end of the body will be seen, so
// there is no watch before.
func (u *upload) begun() {
	if !u.own.phase.CompareAndSwap(unsure, uploading) {
		return
	}
	if e := u.asked(); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if u.own.phase.Load() == uploading { // it may have ended meanwhile
			e.unwatch()
		}
	}
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.source.Read(p)
	if err != nil {
		u.end()
	}
	return n, err
}

func (u *upload) Close() error {
	err := u.source.Close()
	u.end()
	return err
}

func (u *upload) end() {
	if u.own.phase.Load() == uploaded { // by Read, and now comes Close
		return
	}
	u.own.since.Store(int64(u.own.owner.since()))
	before := u.own.phase.Swap(uploaded)
	if e := u.asked(); e != nil { // who asks from now on begins the watch
		e.mu.Lock()
		defer e.mu.Unlock()
		if before == unsure {
			e.unwatch()
		}
		u.watch(e)
	}
}

// memory is an upload of what is in memory: it can be sent without a buffer, and
// no error is its own.
type memory struct{ *upload }

func (m memory) WriteTo(w io.Writer) (int64, error) {
	defer m.end()
	return io.Copy(w, m.ReadCloser)
}

// download notices the end of a response's body, from where on the caller's
// context no longer matters to it.
type download struct {
	io.ReadCloser
	ending *ending
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil {
		d.ending.detach()
	}
	return n, err
}

func (d *download) Close() error {
	err := d.ReadCloser.Close()
	d.ending.detach()
	return err
}

// duplex is a download that can be written to: after 101, the connection.
type duplex struct {
	*download
	io.Writer
}

const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// discard gives up a response. Reading the little that is left of a small body
// lets the connection be used again; a large one, or one that dribbles, costs
// more than a new connection.
func discard(body io.ReadCloser, length int64) {
	defer body.Close()
	if body == http.NoBody || length == 0 || length > drainBytes {
		return
	}
	late := time.AfterFunc(drainTime, func() { body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes+1) // one more, to see the end of a body that is as long as this
}
