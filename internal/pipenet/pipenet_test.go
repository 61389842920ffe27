package pipenet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnHourOnTheWireTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, base := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.Copy(w, r.Body)
		}))
		start := time.Now()
		for range 3 {
			resp, err := (&http.Client{Transport: base}).Post("http://provider.test/", "", strings.NewReader("hello"))
			require.NoError(t, err)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, "hello", string(b))
		}
		assert.Equal(t, 3*time.Hour, time.Since(start))
		assert.Equal(t, 1, l.Dialed(), "connections, which must be reused")
		assert.Equal(t, 1, l.Open(), "connections kept idle")
		base.CloseIdleConnections()
		assert.Equal(t, 0, l.Open(), "connections after CloseIdleConnections")
	})
}

func TestDialFailsAsNetDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := l.DialContext(ctx, "tcp", "nobody.accepts:80")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))

		require.NoError(t, l.Close())
		require.NoError(t, l.Close(), "the second Close")
		_, err = l.DialContext(t.Context(), "tcp", "closed:80")
		assert.ErrorIs(t, err, net.ErrClosed)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		assert.Equal(t, "dial", op.Op)
		_, err = l.Accept()
		assert.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestTheEndCutsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, base := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://provider.test/", nil)
		require.NoError(t, err)
		_, err = base.RoundTrip(r) // its handler writes for ever: without Cut this bubble would not end
		require.NoError(t, err)
		assert.Equal(t, 1, l.Open())
	})
}

func Example() {
	l := Listen()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "no socket was opened")
	})}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()

	client := &http.Client{Transport: &http.Transport{DialContext: l.DialContext}}
	resp, err := client.Get("http://anywhere.test/")
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output: no socket was opened <nil>
}
