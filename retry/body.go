package retry

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// upload notices the end of a request's body, from where on the attempt is
// watched.
type upload struct {
	body   io.ReadCloser
	flight *flight
	state  *State
	limit  time.Duration

	mu   sync.Mutex // between the sending of the body and the attempt's end
	seen bool       // the end of the body
	over bool       // the attempt has its answer or its error: no watch any more
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	if err != nil {
		u.end()
	}
	return n, err
}

func (u *upload) Close() error {
	err := u.body.Close()
	u.end()
	return err
}

func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.seen && !u.over {
		u.flight.watch(u.state, u.state.now(), u.limit)
	}
	u.seen = true
}

// download notices the end of a response's body, from where on the caller's
// context no longer matters to it.
type download struct {
	io.ReadCloser
	flight *flight
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil {
		d.flight.detach()
	}
	return n, err
}

func (d *download) Close() error {
	err := d.ReadCloser.Close()
	d.flight.detach()
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
