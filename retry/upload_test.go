package retry_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/retry"
)

// A body in memory is watched from the end of its upload as any other, which
// net/http's events tell.
func TestAttemptTimeoutOfABodyInMemory(t *testing.T) {
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1)
		time.Sleep(11 * time.Minute) // an upload as slow as it wants
		io.Copy(io.Discard, r.Body)
		think, _ := time.ParseDuration(r.Header.Get("Think"))
		select {
		case <-time.After(think):
		case <-r.Context().Done():
		}
	})
	for _, h2 := range []bool{false, true} {
		for _, method := range []string{"PUT", "POST"} { // of which the latter is traced anyway
			for think, want := range map[string]bool{"5s": true, "11s": false} {
				synctest.Test(t, func(t *testing.T) {
					l := pipenet.Listen()
					protocols := new(http.Protocols)
					protocols.SetHTTP1(!h2)
					protocols.SetUnencryptedHTTP2(h2)
					server := &http.Server{Handler: slow, Protocols: protocols}
					go server.Serve(l)
					base := &http.Transport{DialContext: l.DialContext, Protocols: protocols}
					r := call(t, method, "")
					data := make([]byte, 2<<20)
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
					r.Header.Set("Think", think)
					begun := time.Now()
					resp, err := send(t, base, timeout(10*second), r)
					assert.Greater(t, time.Since(begun), 10*time.Minute)
					if want {
						require.NoError(t, err)
						resp.Body.Close()
					} else {
						require.ErrorContains(t, err, "attempt timeout")
					}
					base.CloseIdleConnections()
					l.Cut()
					server.Close()
					time.Sleep(time.Minute)
				})
			}
		}
	}
}

// counting counts the writes to a connection.
type counting struct {
	net.Conn
	writes *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A small body goes out in one piece with its header, with a timeout or without.
func TestSmallBodyIsSentInOnePiece(t *testing.T) {
	for _, p := range []*retry.Policy{nil, timeout(10 * second)} {
		for _, method := range []string{"PUT", "POST"} {
			synctest.Test(t, func(t *testing.T) {
				_, base := pipenet.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
				}))
				defer base.CloseIdleConnections()
				var writes atomic.Int64
				dial := base.DialContext
				base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := dial(ctx, network, addr)
					return counting{conn, &writes}, err
				}
				resp, err := send(t, base, p, call(t, method, "payload"))
				require.NoError(t, err)
				resp.Body.Close()
				assert.EqualValues(t, 1, writes.Load())
			})
		}
	}
}

// A protocol that reports no events is watched from the departure.
func TestAttemptTimeoutWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := new(http.Transport)
		base.RegisterProtocol("strange", roundTrip(hangs))
		r := call(t, "PUT", "payload")
		r.URL.Scheme = "strange"
		p := timeout(10 * second)
		p.MaxAttempts = 1
		begun := time.Now()
		_, err := send(t, base, p, r)
		require.ErrorContains(t, err, "attempt timeout")
		assert.Equal(t, 10*second, time.Since(begun))
	})
}
