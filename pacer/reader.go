package pacer

import (
	"context"
	"io"
	"time"
)

// readSpan is the most of its rate that a Reader hands on at once.
const readSpan = 100 * time.Millisecond

// Reader returns a reader of r whose bytes are units of key: what was read is
// handed on once it may leave. With a burst of 16 MB, 2 MB/s and a link of
// 10 MB/s the first 20 MB come at full speed, in 2 s, and the rest at 2 MB/s.
// Reads end with Wait's error. Many readers of one key share its rate. Closing
// the reader closes r, if r can be closed.
func (p *Pacer) Reader(ctx context.Context, key string, r io.Reader) io.Reader {
	return &reader{ctx, p, key, r}
}

type reader struct {
	ctx   context.Context
	pacer *Pacer
	key   string
	r     io.Reader
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b[:min(int64(len(b)), r.pacer.readMost())])
	if n == 0 {
		return 0, err
	}
	release, werr := r.pacer.Wait(r.ctx, r.key, int64(n))
	if werr != nil {
		return 0, werr
	}
	release()
	return n, err
}

func (r *reader) Close() error {
	if c, ok := r.r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// readMost is how many bytes may wait as one.
func (p *Pacer) readMost() int64 {
	r := p.lock()
	defer r.mu.Unlock()
	if p.pace.Rate.none() {
		return never
	}
	most := max(1, p.pace.Rate.give(readSpan))
	if p.pace.Burst > 0 && p.pace.Shape == TokenBucket {
		most = min(most, p.pace.Burst)
	}
	return most
}
