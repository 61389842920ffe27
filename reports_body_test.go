package polite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/breaker"
	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// Reports about bodies and connections, of requests and of answers.

func exhaustedAnswer(t *testing.T) {
	var last *body
	p := newProvider(func(n int, r *http.Request) (*http.Response, error) {
		resp := reply(r, 503, "Content-Type", "application/json")
		last = newBody(fmt.Sprintf(`{"n":%d}`, n))
		resp.Body = last
		return resp, nil
	})
	client := &http.Client{Transport: tries(p, func(p *retry.Policy) { p.MaxAttempts = 3 })}
	resp, err := client.Do(request(t, "GET", api, ""))
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Zero(t, last.reads.Load(), "read ahead")
	assert.Zero(t, last.closes.Load())
	assert.Equal(t, `{"n":3}`, read(t, resp))
	assert.Len(t, p.at, 3)
}

func eitherOr(t *testing.T) {
	both := newBody("both")
	bad := errors.New("bad")
	for name, answer := range map[string]func(int, *http.Request) (*http.Response, error){
		"both":     func(_ int, r *http.Request) (*http.Response, error) { return &http.Response{Body: both}, bad },
		"neither":  func(int, *http.Request) (*http.Response, error) { return nil, nil },
		"no body":  func(int, *http.Request) (*http.Response, error) { return &http.Response{StatusCode: 503}, nil },
		"503":      answers(503),
		"error":    fails(bad),
		"no dial":  fails(dialError()),
		"503, err": inTurn(says(503), fails(bad)),
		"err, 503": inTurn(fails(bad), says(503)),
	} {
		resp, err := do(t, polite.NewTransport(newProvider(answer)), request(t, "PUT", api, "x"))
		if err == nil && assert.NotNil(t, resp, name) && assert.NotNil(t, resp.Body, name) {
			resp.Body.Close()
		}
	}
	assert.EqualValues(t, 4, both.closes.Load(), "the answers beside an error")

	r := request(t, "PUT", api, "x")
	r.GetBody = func() (io.ReadCloser, error) { return nil, bad }
	resp, err := do(t, polite.NewTransport(newProvider(answers(503))), r)
	require.NoError(t, err)
	assert.Equal(t, "body", read(t, resp), "the answer was given up for a retry that could not be")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = do(t, polite.NewTransport(newProvider(hang)), request(t, "GET", api, "").WithContext(ctx))
	assert.ErrorIs(t, err, context.Canceled)

	for _, tr := range refusing(t) {
		_, err = do(t, tr, request(t, "GET", api, ""))
		assert.Error(t, err)
	}
}

// refusing are Transports that refuse the next call of api by themselves.
func refusing(t *testing.T) map[string]*polite.Transport {
	down := polite.NewTransport(newProvider(answers(200)))
	down.Breaker = &breaker.Breaker{Failures: 1, OpenFor: time.Hour}
	done, err := down.Breaker.Acquire("http://api.test:80")
	require.NoError(t, err)
	done(breaker.Unreachable)

	held := polite.NewTransport(newProvider(answers(200)))
	held.Pacer.Hold("http://api.test:80", time.Now().Add(time.Hour))

	large := polite.NewTransport(newProvider(answers(200)))
	large.Pacer = &pacer.Pacer{Rate: pacer.Per(1, time.Second), Burst: 1}
	large.Cost = func(*http.Request) int64 { return 2 }

	spent := polite.NewTransport(newProvider(answers(200)))
	spent.Quotas = []*quota.Quota{{Name: "day", Limit: 1, Period: quota.Day, Cost: func(*http.Request) int64 { return 2 }}}

	return map[string]*polite.Transport{"circuit": down, "hold": held, "too large": large, "quota": spent}
}

// zeros is a body of n bytes that are nowhere.
type zeros struct{ n, read int64 }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(int64(len(p)), z.n-z.read)
	if n == 0 {
		return 0, io.EOF
	}
	z.read += n
	return int(n), nil
}

func (z *zeros) Close() error { return nil }

func gigabyte(t *testing.T) {
	const size = 1 << 30
	var opened, sent int64
	buffer := make([]byte, 1<<20)
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		opened++
		for {
			n, err := r.Body.Read(buffer)
			if sent == 0 && n != len(buffer) {
				t.Error("something was read before")
			}
			if sent += int64(n); err != nil {
				break
			}
		}
		r.Body.Close()
		if opened < 3 {
			return reply(r, 503), nil
		}
		return reply(r, 200), nil
	})
	copies := 0
	r := request(t, "PUT", api, "")
	first := &zeros{n: size}
	r.Body, r.ContentLength = first, size
	r.GetBody = func() (io.ReadCloser, error) { copies++; return &zeros{n: size}, nil }
	tr := tries(base, atOnce)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := do(t, tr, r)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.EqualValues(t, 3*size, sent)
	assert.Equal(t, 2, copies, "GetBody is for the second try and the third")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "bytes allocated in all")
}

// roundTripper is a base made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func streamOnce(t *testing.T) {
	for _, method := range []string{"PUT", "POST"} {
		p := newProvider(answers(503, 200))
		tr := tries(p)
		h := listen(tr)
		stream := newBody("once")
		r := request(t, method, api, "")
		r.Body, r.ContentLength = stream, -1
		r = r.WithContext(retry.WithIdempotent(r.Context()))
		resp, err := do(t, tr, r)
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, "body", read(t, resp))
		assert.Len(t, p.at, 1, "sent again, without its body")
		assert.EqualValues(t, 1, stream.closes.Load())
		assert.Equal(t, []observe.Reason{observe.NotReplayable}, h.why())
	}
}

// lazy is a body that comes a kilobyte a millisecond, and belongs to one try.
type lazy struct{ r *bytes.Reader }

func (l *lazy) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return l.r.Read(p[:min(len(p), 1024)])
}

func (l *lazy) Close() error { return nil }

func slowUpload(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 32<<10) // 512 KiB
	var n atomic.Int32
	var got atomic.Value
	_, base := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			w.WriteHeader(503) // before the body is here
			return
		}
		h := sha256.New()
		size, err := io.Copy(h, r.Body)
		assert.NoError(t, err)
		got.Store(fmt.Sprintf("%d %x", size, h.Sum(nil)))
	}))
	r := request(t, "PUT", "http://provider.test/", "")
	r.ContentLength = int64(len(data))
	r.GetBody = func() (io.ReadCloser, error) { return &lazy{bytes.NewReader(data)}, nil }
	r.Body, _ = r.GetBody()
	resp, err := do(t, polite.NewTransport(base), r)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 200, resp.StatusCode)
	assert.EqualValues(t, 2, n.Load())
	assert.Equal(t, fmt.Sprintf("%d %x", len(data), sha256.Sum256(data)), got.Load())
}

func healthyConnections(t *testing.T) {
	dials := map[string]int{}
	l, base := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.Host, "busy"):
			w.WriteHeader(503)
			io.WriteString(w, "busy")
		case strings.HasPrefix(r.Host, "down"):
			panic(http.ErrAbortHandler)
		}
	}))
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials[addr]++
		return l.DialContext(ctx, network, addr)
	}
	tr := tries(base)
	for range 5 {
		for _, host := range []string{"busy", "down", "well"} {
			r := request(t, "GET", "http://"+host+".test/", "")
			resp, err := do(t, tr, r)
			if host == "down" {
				require.ErrorIs(t, err, io.EOF)
				continue
			}
			require.NoError(t, err)
			read(t, resp)
		}
	}
	assert.Equal(t, 1, dials["well.test:80"])
	assert.Equal(t, 1, dials["busy.test:80"], "what was dropped was drained")
	assert.Greater(t, dials["down.test:80"], 10)
}

func dribble(t *testing.T) {
	var at []time.Duration
	start := time.Now()
	_, base := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at = append(at, time.Since(start)); len(at) > 1 {
			return
		}
		w.Header().Set("Content-Length", "65536")
		w.WriteHeader(503)
		for range 65536 {
			if _, err := w.Write([]byte(".")); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
		}
	}))
	resp, err := get(t, tries(base))
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	resp.Body.Close()
	require.Len(t, at, 2)
	assert.LessOrEqual(t, at[1], 1100*time.Millisecond, "a backoff of a second, and the drain")
}

func hangs(t *testing.T) {
	second := func(p *retry.Policy) { p.Base, p.AttemptTimeout = -1, time.Second }
	p := newProvider(inTurn(hang, says(200)))
	assert.Equal(t, 200, status(t, tries(p, second)))
	assert.Equal(t, seconds(0, 1), p.at)

	p = newProvider(hang)
	_, err := get(t, tries(p, second))
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	assert.True(t, failed.Timeout())
	assert.Equal(t, seconds(0, 1, 2, 3), p.at)
	assert.Equal(t, 4*time.Second, time.Since(p.start))
}

func slowDownload(t *testing.T) {
	_, base := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(900 * time.Millisecond)
		for range 10 {
			io.WriteString(w, "chunk")
			w.(http.Flusher).Flush()
			time.Sleep(2 * time.Second)
		}
	}))
	start := time.Now()
	resp, err := get(t, tries(base, func(p *retry.Policy) { p.AttemptTimeout = time.Second }))
	require.NoError(t, err)
	assert.Equal(t, 900*time.Millisecond, time.Since(start))
	assert.Equal(t, strings.Repeat("chunk", 10), read(t, resp))
	assert.Equal(t, 20900*time.Millisecond, time.Since(start))
}

func droppedBodies(t *testing.T) {
	for _, last := range []int{200, 503} {
		var all []*body
		p := newProvider(func(n int, r *http.Request) (*http.Response, error) {
			resp := reply(r, 503)
			if n == 4 {
				resp.StatusCode = last
			}
			all = append(all, newBody("body"))
			resp.Body = all[n-1]
			return resp, nil
		})
		resp, err := get(t, polite.NewTransport(p))
		require.NoError(t, err)
		require.Len(t, all, 4)
		for i, b := range all[:3] {
			assert.EqualValues(t, 1, b.closes.Load(), "answer %d", i+1)
		}
		assert.Zero(t, all[3].closes.Load(), "the caller's")
		resp.Body.Close()
		assert.EqualValues(t, 1, all[3].closes.Load())
	}
}

// countsIdle is a base that counts who closes its idle connections.
type countsIdle struct {
	http.RoundTripper
	closed int
}

func (c *countsIdle) CloseIdleConnections() { c.closed++ }

func closeIdle(t *testing.T) {
	base := &countsIdle{RoundTripper: newProvider(inTurn(fails(dialError()), says(503), fails(io.EOF), says(503)))}
	client := &http.Client{Transport: &retry.Transport{Base: polite.NewTransport(base), Policy: &retry.Policy{MaxAttempts: 1}}}
	resp, err := client.Do(request(t, "GET", api, ""))
	require.NoError(t, err)
	resp.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	base.RoundTripper = newProvider(hang)
	_, err = client.Do(request(t, "GET", api, "").WithContext(ctx))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Zero(t, base.closed, "failures close nobody's connections")
	client.CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
}

func tunnel(t *testing.T) {
	_, base := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		rw.Flush()
		io.Copy(c, rw)
	}))
	tr := everything(base)
	tr.Retry = &retry.Policy{AttemptTimeout: time.Second}
	tr.Pacer.MaxInFlight = 1
	r := request(t, "GET", "http://provider.test/", "")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Connection", "Upgrade")
	resp, err := do(t, tr, r)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok, "the body cannot be written to")
	for range 3 {
		time.Sleep(time.Hour) // longer than any timeout here
		_, err = io.WriteString(conn, "ping")
		require.NoError(t, err)
		echo := make([]byte, 4)
		_, err = io.ReadFull(conn, echo)
		require.NoError(t, err)
		assert.Equal(t, "ping", string(echo))
	}
	resp, err = do(t, tr, request(t, "GET", "http://provider.test/", "")) // the only place in flight is free
	require.NoError(t, err)
	resp.Body.Close()
	require.NoError(t, conn.Close())
}

func sameRequestTwice(t *testing.T) {
	var headers []http.Header
	p := newProvider(func(_ int, r *http.Request) (*http.Response, error) {
		headers = append(headers, r.Header.Clone())
		return reply(r, []int{503, 200}[(len(headers)-1)%2]), nil
	})
	tr := everything(p)
	tr.Retry = &retry.Policy{Base: -1, AttemptTimeout: time.Minute}
	r := request(t, "POST", api, "hello")
	r.Header.Set("X-Own", "1")
	before := r.Header.Clone()
	for range 3 {
		resp, err := do(t, tr, r)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, before, r.Header)
		r.Body, _ = r.GetBody()
	}
	require.Len(t, headers, 6)
	keys := map[string]bool{}
	for _, h := range headers {
		assert.Len(t, h, 2, "the caller's field and the key: %v", h)
		assert.Len(t, h["Idempotency-Key"], 1)
		keys[h.Get("Idempotency-Key")] = true
	}
	assert.Len(t, keys, 3, "a key for each call")

	for _, method := range []string{"GET", "POST"} {
		r = request(t, method, api, "")
		r.Header = nil
		_, err := do(t, tr, r)
		assert.NoError(t, err, "%s with a nil Header", method)
		assert.Nil(t, r.Header)
	}
}
