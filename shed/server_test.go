package shed_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/shed"
)

// serve answers by net/http over a network in memory.
func serve(t *testing.T, g *shed.Gate, h http.Handler) (client *http.Client, dial func() net.Conn) {
	l, base := pipenet.Serve(t, g.Handler(h))
	return &http.Client{Transport: base}, func() net.Conn {
		c, err := l.DialContext(t.Context(), "", "")
		require.NoError(t, err)
		return c
	}
}

func TestWhatAResponseWriterCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: -1}
		_, dial := serve(t, g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, ok := w.(http.Flusher)
			assert.True(t, ok)
			_, ok = w.(io.ReaderFrom)
			assert.True(t, ok)
			control := http.NewResponseController(w)
			assert.NoError(t, control.SetReadDeadline(time.Now().Add(time.Hour)))
			assert.NoError(t, control.EnableFullDuplex())
			if r.URL.Path == "/flush" {
				assert.NoError(t, control.Flush())
				return
			}
			conn, _, err := control.Hijack()
			if assert.NoError(t, err) {
				go func() { // the connection outlives the handler, and holds no slot
					time.Sleep(time.Hour)
					io.WriteString(conn, "bye\n")
					conn.Close()
				}()
			}
		}))
		for range 3 {
			c := dial()
			io.WriteString(c, "GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n")
			synctest.Wait()
			assert.Zero(t, g.Stats().InFlight)
			said, err := bufio.NewReader(c).ReadString('\n')
			assert.NoError(t, err)
			assert.Equal(t, "bye\n", said)
		}
		c := dial()
		io.WriteString(c, "GET /flush HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		said, _ := io.ReadAll(c)
		assert.True(t, strings.HasPrefix(string(said), "HTTP/1.1 200 OK\r\n"))
	})
}

func TestServerNoticesWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := &shed.Gate{Limit: 1, MaxWait: -1}
		client, _ := serve(t, g, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			calls++
			time.Sleep(time.Second)
		}))
		get := func(ctx context.Context) {
			r, err := http.NewRequestWithContext(ctx, "GET", "http://api.test/", nil)
			require.NoError(t, err)
			if resp, err := client.Do(r); err == nil {
				resp.Body.Close()
			}
		}
		go get(t.Context())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		get(ctx)
		synctest.Wait()
		assert.Zero(t, g.Stats().Waiting)
		assert.EqualValues(t, 1, g.Stats().Refused[shed.Gone])
		time.Sleep(2 * time.Second)
		assert.Equal(t, 1, calls)
	})
}

func TestRefusedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: -1}
		inside := newHeld()
		_, dial := serve(t, g, inside)
		first := dial()
		io.WriteString(first, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		for _, head := range []string{
			"Content-Length: 1000000\r\nExpect: 100-continue\r\n", // and is not asked to
			"Transfer-Encoding: chunked\r\n",
			"Content-Length: 1000000\r\n",
		} {
			c := dial()
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\n"+head+"\r\n")
			began := time.Now()
			answer := bufio.NewReader(c)
			resp, err := http.ReadResponse(answer, nil)
			require.NoError(t, err)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, head)
			assert.Zero(t, time.Since(began), head)
			assert.True(t, resp.Close, head)
			c.Close()
		}
		inside.let(1)
		first.Close()
	})
}

// TestRefusedWithASmallBody: the answer does not wait for a body that net/http
// would read first, and the connection is used again once that has come.
func TestRefusedWithASmallBody(t *testing.T) {
	for _, c := range []struct {
		size int // negative: unknown
		head string
		stay bool
		wrap bool // by a handler outside
	}{
		{size: 5, stay: true, wrap: true},
		{size: 5, head: "Expect: 100-continue\r\n", wrap: true},
		{size: 5, stay: true},
		{size: 100_000, stay: true},
		{size: 256<<10 - 1, stay: true},
		{size: 256 << 10},
		{size: 5, head: "Expect: 100-continue\r\n"},
		{size: 100_000, head: "Expect: 100-continue\r\n"},
		{size: -1, head: "Transfer-Encoding: chunked\r\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &shed.Gate{Limit: 1, Queue: -1}
			slot, err := g.Enter(t.Context(), shed.Entry{})
			require.NoError(t, err)
			h := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
			}))
			l, _ := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.wrap {
					r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
				}
				h.ServeHTTP(w, r)
			}))
			if c.size >= 0 {
				c.head += "Content-Length: " + strconv.Itoa(c.size) + "\r\n"
			}
			conn, err := l.DialContext(t.Context(), "", "")
			require.NoError(t, err)
			io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\n"+c.head+"\r\n")
			began := time.Now()
			answers := bufio.NewReader(conn)
			resp, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			said, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Contains(t, string(said), "full")
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, c.head)
			assert.Zero(t, time.Since(began), c.head)
			assert.Equal(t, !c.stay, resp.Close, c.head)
			if c.stay {
				slot.Leave()
				io.WriteString(conn, strings.Repeat("x", c.size)+"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
				resp, err = http.ReadResponse(answers, nil)
				require.NoError(t, err)
				assert.Equal(t, http.StatusOK, resp.StatusCode, c.head)
			}
			conn.Close()
		})
	}
}

func TestServerPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &shed.Gate{Limit: 1, Queue: -1}
		client, _ := serve(t, g, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		for range 5 {
			_, err := client.Get("http://api.test/")
			require.Error(t, err, "it was let in")
		}
		assert.EqualValues(t, 5, g.Stats().Admitted)
		assert.Zero(t, g.Stats().InFlight)
	})
}

// What a handler inside finds out about the request is known outside, too.
func TestWhatIsKnownOutside(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /upload/{id}", func(_ http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.ParseMultipartForm(1))
		assert.Equal(t, "7", r.PathValue("id"))
	})
	r := httptest.NewRequest("POST", "/upload/7", strings.NewReader("--x\r\nContent-Disposition: form-data; name=a; filename=b\r\n\r\ntext\r\n--x--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	(&shed.Gate{}).Handler(mux).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, "POST /upload/{id}", r.Pattern)
	require.NotNil(t, r.MultipartForm)
	assert.NoError(t, r.MultipartForm.RemoveAll())
}
