package limiter

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spentServer is a server over a loopback connection whose Guard refuses
// everything but the first request, and that counts the bytes that its
// connections read.
func spentServer(t *testing.T, change func(*httptest.Server)) (*httptest.Server, *atomic.Int64) {
	h := (&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 1)}}}}).
		Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	read := new(atomic.Int64)
	server := httptest.NewUnstartedServer(h)
	server.Listener = countingListener{server.Listener, read}
	change(server)
	t.Cleanup(server.Close)
	resp, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
	return server, read
}

type countingListener struct {
	net.Listener
	read *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countingConn{c, l.read}, err
}

type countingConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

const upload = 10 << 20

// dial opens a connection that fails the test rather than hang.
func dial(t *testing.T, server *httptest.Server) net.Conn {
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c
}

// A Degrade handler's answer does not wait for the body either.
func TestDegradedUploadIsNotRead(t *testing.T) {
	server := httptest.NewServer((&Guard{
		Degrade: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "cached") }),
		Rules:   []Rule{{Key: Global, Limits: []*Limit{window("w", 1)}}},
	}).Handler(ok200))
	t.Cleanup(server.Close)
	resp, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	resp.Body.Close()
	for _, header := range []string{"Transfer-Encoding: chunked", fmt.Sprintf("Content-Length: %d", upload)} {
		c := dial(t, server)
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: api.test\r\n%s\r\n\r\n", header)
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "POST"})
		require.NoError(t, err, "nothing of the body was sent, and yet there is an answer")
		assert.Equal(t, 200, resp.StatusCode)
		assert.True(t, resp.Close, "the connection is not used again")
		c.Close()
	}
}

// A refused upload is answered before any of it has come, and is not read.
func TestRefusedUploadIsNotRead(t *testing.T) {
	for name, header := range map[string]string{
		"length": fmt.Sprintf("Content-Length: %d\r\n", upload),
		"chunks": "Transfer-Encoding: chunked\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			server, read := spentServer(t, (*httptest.Server).Start)
			c := dial(t, server)
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: api.test\r\n%s\r\n", header)
			resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "POST"})
			require.NoError(t, err, "nothing of the body was sent, and yet there is an answer")
			assert.Equal(t, 429, resp.StatusCode)
			assert.True(t, resp.Close, "the connection is not used again")
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Contains(t, string(body), "quota-exceeded")
			assert.Less(t, read.Load(), int64(1000))

			go io.Copy(c, bytes.NewReader(make([]byte, upload))) // fails once the server has hung up
			_, _ = io.Copy(io.Discard, c)
			server.Close() // all connections are done
			assert.Less(t, read.Load(), int64(300<<10), "of 10 MiB")
		})
	}
}

// Over net/http's own client the answer arrives as well.
func TestRefusedUploadOfAClient(t *testing.T) {
	server, read := spentServer(t, (*httptest.Server).Start)
	resp, err := server.Client().Post(server.URL, "", bytes.NewReader(make([]byte, upload)))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 429, resp.StatusCode)
	assert.Less(t, read.Load(), int64(upload/2))
}

// Who asks whether to send is not told to.
func TestRefusedUploadIsNotAskedFor(t *testing.T) {
	server, read := spentServer(t, (*httptest.Server).Start)
	c := dial(t, server)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", upload)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 429 "), string(answer))
	assert.NotContains(t, string(answer), "100 Continue")
	assert.Less(t, read.Load(), int64(1000))
}

// A small body does not cost the connection.
func TestRefusedConnectionIsKept(t *testing.T) {
	server, _ := spentServer(t, (*httptest.Server).Start)
	c := dial(t, server)
	r := bufio.NewReader(c)
	for range 3 {
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 5\r\n\r\nhello")
		resp, err := http.ReadResponse(r, &http.Request{Method: "POST"})
		require.NoError(t, err)
		assert.Equal(t, 429, resp.StatusCode)
		assert.False(t, resp.Close)
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	fmt.Fprint(c, "HEAD / HTTP/1.1\r\nHost: api.test\r\n\r\nGET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	for _, method := range []string{"HEAD", "GET"} {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		require.NoError(t, err, "the answer to HEAD has no body")
		assert.Equal(t, 429, resp.StatusCode)
		assert.NotEmpty(t, resp.Header.Get("Retry-After"))
		_, _ = io.Copy(io.Discard, resp.Body)
	}
}

// Over HTTP/2 the stream ends and the connection stays.
func TestRefusedUploadHTTP2(t *testing.T) {
	server, read := spentServer(t, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	})
	var conns atomic.Int64
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   server.Client().Transport.(*http.Transport).TLSClientConfig.Clone(),
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conns.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}}
	defer client.CloseIdleConnections()
	before := read.Load()
	for range 3 {
		resp, err := client.Post(server.URL, "", io.LimitReader(zeros{}, upload))
		require.NoError(t, err)
		assert.Equal(t, 2, resp.ProtoMajor)
		assert.Equal(t, 429, resp.StatusCode)
		assert.Empty(t, resp.Header.Get("Connection"))
		resp.Body.Close()
	}
	assert.EqualValues(t, 1, conns.Load())
	assert.Less(t, read.Load()-before, int64(upload))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// What is admitted may stream, send interim answers, and take the connection.
func TestAdmittedStreamsAndHijacks(t *testing.T) {
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-release
		_, _ = io.WriteString(w, "second\n")
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if assert.NoError(t, err) {
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nraw")
			rw.Flush()
			c.Close()
		}
	})
	server := httptest.NewServer((&Guard{Rules: []Rule{{Key: Global, Limits: []*Limit{window("w", 99)}}}}).Handler(mux))
	defer server.Close()

	resp, err := server.Client().Get(server.URL + "/stream")
	require.NoError(t, err)
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "first\n", line, "while the handler still runs")
	close(release)
	resp.Body.Close()
	assert.Equal(t, `"w";r=98;t=60`, resp.Header.Get("RateLimit"))

	resp, err = server.Client().Get(server.URL + "/early")
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 200, resp.StatusCode)

	c := dial(t, server)
	fmt.Fprint(c, "GET /upgrade HTTP/1.1\r\nHost: api.test\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
	all, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(all), "\r\n\r\nraw"), string(all))
}

// While a request is held its client may leave, and the server notices.
func TestHeldClientLeaves(t *testing.T) {
	store := &Memory{}
	queue, other := made(LeakyQueue("q", Per(1, time.Minute), 5)), window("w", 5)
	left := make(chan bool)
	hooks := &Hooks{Refused: func(Event) { close(left) }}
	server := httptest.NewServer((&Guard{Store: store, MaxDelay: -1, Hooks: hooks, Rules: []Rule{{Key: Global, Limits: []*Limit{queue, other}}}}).Handler(ok200))
	defer server.Close()
	remaining := func() int64 {
		d, err := store.Take(context.Background(), other.Charge("global", 0))
		require.NoError(t, err)
		return d.Remaining
	}
	c := dial(t, server)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	require.Eventually(t, func() bool { return remaining() == 4 }, 10*time.Second, time.Millisecond)
	c.Close()
	<-left
	assert.EqualValues(t, 4, remaining(), "it stays charged")
}
