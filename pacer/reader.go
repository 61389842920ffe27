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
// For that, a read that finds the bucket full pays for its whole buffer before
// it begins, for a full bucket earns nothing meanwhile; what it does not fill,
// the next may, and the last loses. Reads end with Wait's error. Many readers
// of one key share its rate. Closing the reader closes r, if r can be closed.
func (p *Pacer) Reader(ctx context.Context, key string, r io.Reader) io.Reader {
	return &reader{ctx: ctx, pacer: p, key: key, r: r}
}

type reader struct {
	ctx   context.Context // as http.Request has one: the reader is the call
	pacer *Pacer
	key   string
	r     io.Reader
	paid  int64 // bytes, ahead of their reading
}

func (r *reader) Read(b []byte) (int, error) {
	most, full := r.pacer.mayRead(r.key)
	b = b[:min(int64(len(b)), most)]
	if full && r.paid == 0 && len(b) > 0 {
		if err := r.pay(int64(len(b))); err != nil {
			return 0, err
		}
	}
	n, err := r.r.Read(b)
	if owed := int64(n) - r.paid; owed > 0 {
		if err := r.pay(owed); err != nil {
			return 0, err
		}
	}
	r.paid -= int64(n)
	return n, err
}

func (r *reader) pay(n int64) error {
	release, err := r.pacer.Wait(r.ctx, r.key, n)
	if err != nil {
		return err
	}
	release()
	r.paid += n
	return nil
}

func (r *reader) Close() error {
	if c, ok := r.r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// mayRead is how many bytes of key may wait as one, and whether its bucket is
// full.
func (p *Pacer) mayRead(key string) (most int64, full bool) {
	r := p.lock()
	defer r.mu.Unlock()
	if p.pace.Rate.none() {
		return never, false
	}
	most = max(1, p.pace.Rate.give(readSpan))
	if p.pace.Shape == LeakyBucket {
		return most, false
	}
	if p.pace.Burst > 0 {
		most = min(most, p.pace.Burst)
	}
	now := p.clock(time.Now())
	return most, p.find(key).fresh(now) <= now
}
