package pacer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// link gives bytes at a rate, for ever.
type link struct {
	perSecond int64
	closed    bool
}

func (l *link) Read(b []byte) (int, error) {
	time.Sleep(time.Duration(int64(len(b)) * int64(time.Second) / l.perSecond))
	return len(b), nil
}

func (l *link) Close() error { l.closed = true; return nil }

// 16 MB burst, 2 MB/s, a link of 10 MB/s: full speed for exactly 2 s.
func TestReaderPacesBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mb = 1_000_000
		p := &Pacer{Rate: Per(2*mb, time.Second), Burst: 16 * mb}
		wire := &link{perSecond: 10 * mb}
		r := p.Reader(t.Context(), "disk", wire)
		start := time.Now()
		_, err := io.CopyN(io.Discard, r, 20*mb)
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, time.Since(start))
		_, err = io.CopyN(io.Discard, r, 2*mb)
		require.NoError(t, err)
		assert.Equal(t, 3*time.Second, time.Since(start))
		_, err = io.CopyN(io.Discard, r, 20*mb)
		require.NoError(t, err)
		assert.Equal(t, 13*time.Second, time.Since(start))
		require.NoError(t, r.(io.Closer).Close())
		assert.True(t, wire.closed)
	})
}

func TestReaderHandsOnAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Rate: Per(1000, time.Second), Burst: 7}
		text := strings.Repeat("0123456789", 50)
		for _, r := range []io.Reader{strings.NewReader(text), iotest.DataErrReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text))} {
			got, err := io.ReadAll(p.Reader(t.Context(), "k", r))
			require.NoError(t, err)
			assert.Equal(t, text, string(got))
		}
		require.NoError(t, p.Reader(t.Context(), "k", strings.NewReader("")).(io.Closer).Close())
		why := errors.New("why")
		_, err := io.ReadAll(p.Reader(t.Context(), "k", iotest.ErrReader(why)))
		require.ErrorIs(t, err, why)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*ms, func() { cancel(why) })
		_, err = io.ReadAll(p.Reader(ctx, "k", strings.NewReader(text)))
		require.ErrorIs(t, err, why)
		got, err := io.ReadAll(new(Pacer).Reader(t.Context(), "k", strings.NewReader(text)))
		require.NoError(t, err)
		assert.Len(t, got, len(text))
	})
}
