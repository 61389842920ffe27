package polite

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"sync"
)

// holdUntilRead returns a body that gives a place in flight back when it is
// read to its end or closed; for a caller that forgets it, when ctx ends, or if
// it never does, when the garbage collector finds the body. After 101 the
// connection belongs to the caller, and the call is over.
func holdUntilRead(ctx context.Context, resp *http.Response, release func()) io.ReadCloser {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		release()
		return resp.Body
	}
	b := &heldBody{ReadCloser: resp.Body, release: sync.OnceFunc(release)}
	if ctx.Done() != nil {
		b.forget = context.AfterFunc(ctx, b.release)
	} else {
		b.found = runtime.AddCleanup(b, func(release func()) { release() }, b.release)
	}
	return b
}

type heldBody struct {
	io.ReadCloser
	release func()
	forget  func() bool // stops waiting for the context's end; nil: it never ends
	found   runtime.Cleanup
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
	if b.forget != nil {
		b.forget()
	} else {
		b.found.Stop()
	}
	b.release()
}
