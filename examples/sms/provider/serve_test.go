package provider_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServeUntilStopped(t *testing.T) {
	url, served := serve(t, t.Context(), time.Hour)
	resp, err := http.Get(url + "/job")
	require.NoError(t, err)
	job, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, "spring", string(job))

	resp, err = http.Post(url+"/messages", "", strings.NewReader(message("m", "a", "Hi")))
	if err == nil { // or it was dropped
		resp.Body.Close()
	}
	resp, err = http.Post(url+"/stop", "", nil)
	require.NoError(t, err)
	resp.Body.Close()
	require.NoError(t, <-served)
	_, err = http.Get(url + "/job")
	require.Error(t, err)
}

func TestServeEndsWhenNobodyComes(t *testing.T) {
	_, served := serve(t, t.Context(), 50*time.Millisecond)
	require.NoError(t, <-served)
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, served := serve(t, ctx, time.Hour)
	cancel()
	require.NoError(t, <-served)
}

func serve(t *testing.T, ctx context.Context, idle time.Duration) (url string, served chan error) {
	p := open(t, t.TempDir(), 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served = make(chan error, 1)
	go func() { served <- p.Serve(ctx, l, "spring", idle) }()
	return "http://" + l.Addr().String(), served
}
