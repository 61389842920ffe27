package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/retry"
)

// asks are the ways to hear of a context's end.
var asks = map[string]func(context.Context){
	"Done": func(ctx context.Context) { <-ctx.Done() },
	"context.AfterFunc": func(ctx context.Context) {
		ended := make(chan struct{})
		context.AfterFunc(ctx, func() { close(ended) })
		<-ended
	},
	"AfterFunc": func(ctx context.Context) {
		ended := make(chan struct{})
		ctx.(interface{ AfterFunc(func()) func() bool }).AfterFunc(func() { close(ended) })
		<-ended
	},
	"a derived context": func(ctx context.Context) {
		ctx, cancel := context.WithCancelCause(context.WithValue(ctx, second, second))
		defer cancel(nil)
		<-ctx.Done()
	},
	"a derived deadline": func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		<-ctx.Done()
	},
	"Err": func(ctx context.Context) {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	},
}

// Whatever a base asks for begins the watch: at its departure or later.
func TestAttemptTimeoutCountsFromWhenTheBaseAsks(t *testing.T) {
	for name, ask := range asks {
		for _, late := range []time.Duration{0, 3 * second} {
			for _, busy := range []int{0, 100} { // more than the watchdog has slots
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						tr := &retry.Transport{Base: roundTrip(hangs), Policy: timeout(time.Hour)}
						for range busy {
							go tr.RoundTrip(call(t, "GET", "").WithContext(ctx))
						}
						synctest.Wait()
						tr.Base = roundTrip(func(r *http.Request) (*http.Response, error) {
							time.Sleep(late)
							ask(r.Context())
							assert.ErrorIs(t, r.Context().Err(), context.DeadlineExceeded)
							<-r.Context().Done()
							return nil, errors.New("whatever")
						})
						p := timeout(10 * second)
						p.MaxAttempts = 1
						begun := time.Now()
						_, err := tr.RoundTrip(call(t, "GET", "").WithContext(retry.WithPolicy(ctx, p)))
						require.ErrorContains(t, err, "attempt timeout")
						took := time.Since(begun) - late
						if name == "Err" { // who polls may look an instant before
							took = took.Truncate(2 * time.Millisecond)
						}
						assert.Equal(t, 10*second, took)
					})
				})
			}
		}
	}
}

// net/http asks at once.
func TestAttemptTimeoutOverHTTP1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, base := pipenet.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Minute):
			case <-r.Context().Done():
			}
		}))
		defer base.CloseIdleConnections()
		p := timeout(10 * second)
		p.MaxAttempts = 2
		begun := time.Now()
		_, err := send(t, base, p, call(t, "GET", ""))
		require.ErrorContains(t, err, "attempt timeout")
		assert.Equal(t, 21*second, time.Since(begun))
	})
}

// A base that never asks cannot be interrupted, and then its answer counts.
func TestBaseThatNeverAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			r.Context().Deadline()
			r.Context().Value(second)
			time.Sleep(time.Hour)
			return status(200)(r)
		})
		resp, err := send(t, base, timeout(10*second), call(t, "GET", ""))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
	})
}

// One that has asked, and then answers too late, has timed out.
func TestBaseThatAsksAndDoesNotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, method := range []string{"GET", "PUT"} {
			closed := false
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				r.Context().Done()
				if r.Body != nil {
					io.Copy(io.Discard, r.Body)
				}
				time.Sleep(11 * second)
				return &http.Response{StatusCode: 200, Body: closer{&closed}}, nil
			})
			p := timeout(10 * second)
			p.MaxAttempts = 1
			content := ""
			if method == "PUT" {
				content = "payload"
			}
			_, err := send(t, base, p, call(t, method, content))
			require.ErrorContains(t, err, "attempt timeout")
			assert.True(t, closed)
		}
	})
}

type closer struct{ closed *bool }

func (c closer) Read([]byte) (int, error) { return 0, io.EOF }
func (c closer) Close() error             { *c.closed = true; return nil }

// The time of an upload counts from its end, whenever the base asks.
func TestAttemptTimeoutThatIsOverBeforeTheBaseAsks(t *testing.T) {
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := roundTrip(func(r *http.Request) (*http.Response, error) {
					time.Sleep(time.Minute)
					io.Copy(io.Discard, r.Body)
					time.Sleep(20 * second)
					ask(r.Context())
					return nil, r.Context().Err()
				})
				p := timeout(10 * second)
				p.MaxAttempts = 1
				begun := time.Now()
				_, err := send(t, base, p, call(t, "PUT", "payload"))
				require.ErrorContains(t, err, "attempt timeout")
				assert.Equal(t, 80*second, time.Since(begun).Truncate(2*time.Millisecond)) // who polls sees it at the second look
			})
		})
	}
}
