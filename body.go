package polite

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// holdUntilRead returns a body that gives a place in flight back when it is
// read to its end or closed, or when ctx ends, for a caller that forgets it.
// After 101 the connection belongs to the caller, and the call is over.
func holdUntilRead(ctx context.Context, resp *http.Response, release func()) io.ReadCloser {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		release()
		return resp.Body
	}
	b := &heldBody{ReadCloser: resp.Body, release: sync.OnceFunc(release)}
	b.forget = context.AfterFunc(ctx, b.release)
	return b
}

type heldBody struct {
	io.ReadCloser
	release func()
	forget  func() bool // stops waiting for the context's end
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *heldBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

func (b *heldBody) done() {
	b.forget()
	b.release()
}
