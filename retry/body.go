package retry

import (
	"io"
	"net/http"
	"time"
)

// upload notices the end of a request's body.
type upload struct {
	body   io.ReadCloser
	flight *flight
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	if err != nil {
		u.flight.uploaded()
	}
	return n, err
}

func (u *upload) Close() error {
	err := u.body.Close()
	u.flight.uploaded()
	return err
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
