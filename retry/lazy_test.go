package retry_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/retry"
)

// longLived counts what stands registered with it.
type longLived struct {
	context.Context
	registered int
}

func (c *longLived) Value(any) any { return nil } // hides the cancelCtx below

func (c *longLived) AfterFunc(f func()) (stop func() bool) {
	c.registered++
	inner := context.AfterFunc(c.Context, f)
	return func() bool {
		c.registered--
		return inner()
	}
}

// lazy is a response body that asks for its context's end when it is read.
type lazy struct {
	io.Reader
	ctx  context.Context
	seen <-chan struct{}
}

func (b *lazy) Read(p []byte) (int, error) {
	b.seen = b.ctx.Done()
	_, cancel := context.WithCancel(b.ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, func() {})()
	return b.Reader.Read(p)
}

func (b *lazy) Close() error { return nil }

// A base that asks late for the end of an attempt's context hears of the
// caller's, and leaves nothing behind.
func TestBaseThatAsksLate(t *testing.T) {
	for _, method := range []string{"GET", "PUT"} {
		for _, busy := range []int{0, 100} { // more than the watchdog has slots
			synctest.Test(t, func(t *testing.T) {
				inner, cancel := context.WithCancel(t.Context())
				parent := &longLived{Context: inner}
				var body *lazy
				release := make(chan struct{})
				tr := &retry.Transport{
					Policy: timeout(time.Minute),
					Base: roundTrip(func(r *http.Request) (*http.Response, error) {
						if r.Body != nil {
							io.Copy(io.Discard, r.Body)
						}
						if r.URL.Path == "/busy" {
							<-release
						} else {
							body = &lazy{Reader: strings.NewReader("body"), ctx: r.Context()}
						}
						return &http.Response{StatusCode: 200, Body: body, Header: http.Header{}}, nil
					}),
				}
				for range busy {
					r := call(t, "GET", "")
					r.URL.Path = "/busy"
					go tr.RoundTrip(r)
				}
				synctest.Wait()
				content := ""
				if method == "PUT" {
					content = "payload"
				}
				resp, err := tr.RoundTrip(call(t, method, content).WithContext(parent))
				require.NoError(t, err)
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, err)
				resp.Body.Close()
				assert.Zero(t, parent.registered)

				select {
				case <-body.seen:
					t.Error("ended too early")
				default:
				}
				cancel()
				synctest.Wait()
				select {
				case <-body.seen:
				default:
					t.Error("the caller's end was not heard of")
				}
				close(release)
			})
		}
	}
}
