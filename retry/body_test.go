package retry_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/retry"
)

// alpacon-cli#298: a body that dribbles does not hold the retry up.
func TestDrainIsCappedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		_, base := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if at = append(at, time.Since(begun)); len(at) > 1 {
				return
			}
			w.WriteHeader(503)
			for range 100 {
				if _, err := fmt.Fprint(w, "."); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(second)
			}
		}))
		defer base.CloseIdleConnections()
		resp, err := send(t, base, steady(nil), call(t, "GET", ""))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, []time.Duration{0, 1050 * time.Millisecond}, at)
	})
}

// Small bodies are drained, so that one connection serves all attempts, and a
// large one is not.
func TestDrainIsCappedInBytes(t *testing.T) {
	for size, conns := range map[int]int{0: 1, 10: 1, 64 << 10: 1, 64<<10 + 1: 3, 1 << 20: 3} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, chunked %t", size, chunked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := 0
					l, base := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if n++; n == 3 {
							return
						}
						if !chunked {
							w.Header().Set("Content-Length", fmt.Sprint(size))
						}
						w.WriteHeader(503)
						w.Write(make([]byte, size))
					}))
					defer base.CloseIdleConnections()
					resp, err := send(t, base, nil, call(t, "GET", ""))
					require.NoError(t, err)
					resp.Body.Close()
					assert.Equal(t, 3, n)
					assert.Equal(t, conns, l.Dialed())
				})
			})
		}
	}
}

// opaque is a body of so many bytes that nobody may hold in memory.
type opaque struct{ left int64 }

func (o *opaque) Read(p []byte) (int, error) {
	if o.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), o.left)
	o.left -= n
	return int(n), nil
}
func (o *opaque) Close() error { return nil }

// hashicorp/go-retryablehttp#145: an upload is streamed, in every attempt.
func TestUploadStaysOutOfMemory(t *testing.T) {
	const size = 64 << 20
	for _, p := range []*retry.Policy{{Base: -1}, {Base: -1, AttemptTimeout: time.Minute}} {
		before := heapInUse()
		peak, n := int64(0), 0
		buf := make([]byte, 32<<10)
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			sent, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r.Body}, buf)
			r.Body.Close()
			require.NoError(t, err)
			assert.EqualValues(t, size, sent)
			peak = max(peak, heapInUse()-before)
			if n++; n < 3 {
				return status(503)(r)
			}
			return status(200)(r)
		})
		r := call(t, "PUT", "")
		r.Body, r.ContentLength = &opaque{size}, size
		r.GetBody = func() (io.ReadCloser, error) { return &opaque{size}, nil }
		resp, err := send(t, base, p, r)
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 3, n)
		assert.Less(t, peak, int64(1<<20), "bytes of heap growth")
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// incomparable is a body that cannot be compared.
type incomparable struct {
	io.Reader
	_ []byte
}

func (incomparable) Close() error { return nil }

func TestBodyIsNotCompared(t *testing.T) {
	for _, p := range []*retry.Policy{{Base: -1}, {Base: -1, AttemptTimeout: time.Minute}} {
		r := call(t, "PUT", "")
		r.GetBody = func() (io.ReadCloser, error) { return incomparable{Reader: strings.NewReader("x")}, nil }
		r.Body, _ = r.GetBody()
		r.ContentLength = 1
		resp, err := send(t, says(status(503), status(200)), p, r)
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
	}
}
