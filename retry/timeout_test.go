package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/retry"
)

const second = time.Second

func timeout(d time.Duration) *retry.Policy {
	return steady(func(p *retry.Policy) { p.AttemptTimeout = d })
}

func TestAttemptTimeoutThenSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := says(hangs, status(200))
		resp, err := send(t, base, timeout(10*second), call(t, "GET", ""))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, []time.Duration{0, 11 * second}, base.at)
	})
}

func TestAttemptTimeoutIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := send(t, says(hangs), timeout(10*second), call(t, "POST", ""))
		var timedOut net.Error
		require.ErrorAs(t, err, &timedOut)
		assert.True(t, timedOut.Timeout())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "attempt timeout: no response header within 10s")
		assert.NotErrorIs(t, err, context.Canceled)
	})
}

func TestAttemptTimeoutBeginsAtTheEndOfTheUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			begun := time.Now()
			time.Sleep(time.Hour) // an upload as slow as it wants
			io.Copy(io.Discard, r.Body)
			time.Sleep(5 * second)
			r.Body.Close()
			_, err := hangs(r)
			took = append(took, time.Since(begun))
			return nil, err
		})
		_, err := send(t, base, timeout(10*second), call(t, "PUT", "payload"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []time.Duration{time.Hour + 10*second, time.Hour + 10*second, time.Hour + 10*second, time.Hour + 10*second}, took)
	})
}

func TestAttemptTimeoutDoesNotCoverTheBody(t *testing.T) {
	for _, method := range []string{"GET", "PUT"} {
		synctest.Test(t, func(t *testing.T) {
			_, base := pipenet.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				time.Sleep(9 * second)
				for range 100 {
					fmt.Fprint(w, "0123456789")
					w.(http.Flusher).Flush()
					time.Sleep(second)
				}
			}))
			defer base.CloseIdleConnections()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := send(t, base, timeout(10*second), call(t, method, "body").WithContext(ctx))
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Len(t, body, 1000)
		})
	}
}

// Many more attempts than slots, of several timeouts, all ended to the instant.
func TestAttemptTimeoutOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &retry.Transport{Base: roundTrip(hangs)}
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				time.Sleep(time.Duration(i%17) * time.Millisecond)
				d := time.Duration(1+i%29) * 100 * time.Millisecond
				begun := time.Now()
				ctx := retry.WithPolicy(t.Context(), &retry.Policy{MaxAttempts: 1, AttemptTimeout: d})
				_, err := tr.RoundTrip(call(t, "GET", "").WithContext(ctx))
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, d, time.Since(begun))
			})
		}
		wg.Wait()
	})
}

// A Transport that outlives a bubble keeps working inside and outside.
func TestAttemptTimeoutInsideAndOutsideOfBubbles(t *testing.T) {
	tr := &retry.Transport{
		Base:   roundTrip(hangs),
		Policy: &retry.Policy{MaxAttempts: 1, AttemptTimeout: 20 * time.Millisecond},
	}
	once := func(t *testing.T) time.Duration {
		begun := time.Now()
		_, err := tr.RoundTrip(call(t, "GET", ""))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return time.Since(begun)
	}
	inside := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			assert.Equal(t, 20*time.Millisecond, once(t))
			assert.Equal(t, 20*time.Millisecond, once(t))
		})
	}
	fast := &retry.Policy{AttemptTimeout: time.Hour}
	armed := func(t *testing.T) { // leaves a timer behind
		ctx, cancel := context.WithCancel(retry.WithPolicy(t.Context(), fast))
		cancel()
		_, err := tr.RoundTrip(call(t, "GET", "").WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
	}
	t.Run("inside first", inside)
	t.Run("outside", func(t *testing.T) { assert.Less(t, once(t), 10*second); armed(t) })
	t.Run("inside", inside)
	t.Run("inside, armed", func(t *testing.T) { synctest.Test(t, armed) })
	t.Run("outside, armed", func(t *testing.T) { assert.Less(t, once(t), 10*second); armed(t) })
	t.Run("inside again", inside)
	t.Run("outside again", func(t *testing.T) { assert.Less(t, once(t), 10*second) })
}

// The caller's own deadline makes the copy and the watch needless.
func TestAttemptTimeoutBehindTheDeadlineCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*second)
		defer cancel()
		r := call(t, "GET", "").WithContext(ctx)
		base := roundTrip(func(got *http.Request) (*http.Response, error) {
			assert.Same(t, r, got)
			return hangs(got)
		})
		_, err := send(t, base, timeout(5*second), r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotContains(t, err.Error(), "attempt timeout")
	})
}

// watched is a caller's context that counts who waits for its end.
type watched struct {
	context.Context
	waiting *int
}

func (w watched) Value(key any) any { // hides the cancelCtx below
	if _, ok := key.(*int); ok {
		return nil
	}
	return w.Context.Value(key)
}
func (w watched) Done() <-chan struct{} { return make(chan struct{}) }
func (w watched) AfterFunc(f func()) func() bool {
	*w.waiting++
	return func() bool { *w.waiting--; return true }
}

func TestAttemptTimeoutLeavesTheCallersContext(t *testing.T) {
	for _, c := range []struct {
		name string
		base answer
		end  func(*http.Response)
	}{
		{"nobody asks", text(200, "body"), func(r *http.Response) {}},
		{"closed", text(200, "body"), func(r *http.Response) { r.Body.Close() }},
		{"read", text(200, "body"), func(r *http.Response) { io.Copy(io.Discard, r.Body) }},
		{"no body", func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
		}, func(*http.Response) {}},
		{"nil body", func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 204}, nil
		}, func(*http.Response) {}},
		{"error", fails(errReset), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			waiting := 0
			ctx := watched{t.Context(), &waiting}
			var attempt context.Context
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				attempt = r.Context()
				if c.name != "nobody asks" {
					r.Context().Done()
					ctx, cancel := context.WithCancel(r.Context())
					assert.Equal(t, 1, waiting)
					cancel()
					_ = ctx
				}
				return c.base(r)
			})
			p := timeout(10 * second)
			p.MaxAttempts = 1
			resp, err := send(t, base, p, call(t, "GET", "").WithContext(ctx))
			if c.end != nil {
				require.NoError(t, err)
				c.end(resp)
			}
			assert.Zero(t, waiting)
			if c.name == "nobody asks" {
				return
			}
			late, cancel := context.WithCancel(attempt)
			defer cancel()
			assert.NoError(t, late.Err())
			assert.Zero(t, waiting, "of somebody who comes too late")
		})
	}
}

// An answer that comes before the end of the upload ends the watch.
func TestAttemptTimeoutEndsWithAnEarlyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempt context.Context
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			attempt = r.Context()
			time.AfterFunc(second, func() { r.Body.Close() })
			return text(200, "body")(r)
		})
		resp, err := send(t, base, timeout(10*second), call(t, "PUT", "payload"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.NoError(t, attempt.Err())
		resp.Body.Close()
	})
}

// A context derived from an attempt's ends with it, without a goroutine.
func TestAttemptContextPassesItsEndOn(t *testing.T) {
	cause := errors.New("because")
	for _, c := range []struct {
		name string
		end  func(context.CancelCauseFunc)
		err  error
		want error
	}{
		{"by the timeout", func(context.CancelCauseFunc) {}, context.DeadlineExceeded, context.DeadlineExceeded},
		{"by the caller", func(cancel context.CancelCauseFunc) { cancel(cause) }, context.Canceled, cause},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), cause, "value"))
				defer cancel(nil)
				base := roundTrip(func(r *http.Request) (*http.Response, error) {
					outer := r.Context()
					assert.Equal(t, "value", outer.Value(cause))
					inner, stop := context.WithCancel(outer)
					defer stop()
					left, leave := context.WithCancel(outer)
					leave()
					ran := make(chan struct{})
					context.AfterFunc(outer, func() { close(ran) })
					unwanted := context.AfterFunc(outer, func() { t.Error("stopped, and yet it runs") })
					assert.True(t, unwanted())
					assert.False(t, unwanted())
					require.NoError(t, outer.Err())
					require.NoError(t, inner.Err())
					require.Error(t, left.Err())
					time.AfterFunc(second, func() { c.end(cancel) })
					<-inner.Done()
					<-outer.Done()
					<-ran
					assert.Equal(t, c.err, outer.Err())
					assert.Equal(t, c.err, inner.Err())
					assert.Equal(t, c.want, context.Cause(inner))
					late, stop := context.WithCancel(outer)
					defer stop()
					<-late.Done()
					again := make(chan struct{})
					context.AfterFunc(outer, func() { close(again) })
					<-again
					return nil, context.Cause(inner)
				})
				p := timeout(2 * second)
				p.MaxAttempts = 1
				_, err := send(t, base, p, call(t, "GET", "").WithContext(ctx))
				assert.ErrorIs(t, err, c.want)
			})
		})
	}
}

// serveTLS answers over HTTP/2.
func serveTLS(t *testing.T, h http.HandlerFunc) *http.Transport {
	l := pipenet.Listen()
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}, EnableHTTP2: true}
	s.StartTLS()
	base := s.Client().Transport.(*http.Transport).Clone()
	base.DialContext = l.DialContext
	base.ForceAttemptHTTP2 = true
	t.Cleanup(func() {
		base.CloseIdleConnections()
		l.Cut()
		s.Close()
	})
	return base
}

func TestAttemptTimeoutOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow bool
		base := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, 2, r.ProtoMajor)
			if slow = !slow; slow {
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
				return
			}
			for range 20 {
				fmt.Fprint(w, "0123456789")
				w.(http.Flusher).Flush()
				time.Sleep(second)
			}
		})
		begun := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := call(t, "GET", "").WithContext(ctx)
		r.URL.Scheme, r.URL.Host = "https", "example.com"
		tr := &retry.Transport{Base: base, Policy: timeout(10 * second)}
		resp, err := tr.RoundTrip(r)
		require.NoError(t, err)
		assert.Equal(t, 11*second, time.Since(begun))
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Len(t, body, 200)

		slow = true
		resp, err = tr.RoundTrip(r)
		require.NoError(t, err)
		time.AfterFunc(5500*time.Millisecond, cancel)
		_, err = io.ReadAll(resp.Body)
		assert.ErrorIs(t, err, context.Canceled)
		resp.Body.Close()
		time.Sleep(time.Minute) // the handler, who does not look
	})
}

// A dial that hangs proves that nothing was sent: even a POST goes again.
func TestAttemptTimeoutWhileDialingIsProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, base := pipenet.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		var dials atomic.Int32
		base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(time.Minute):
					return nil, errors.New("too late")
				}
			}
			return l.DialContext(ctx, network, address)
		}
		begun := time.Now()
		resp, err := send(t, base, timeout(10*second), call(t, "POST", ""))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 11*second, time.Since(begun))
		base.CloseIdleConnections()
		time.Sleep(time.Hour) // the hanging dial
	})
}

func TestAttemptTimeoutOfAPanickingBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &retry.Transport{Policy: timeout(10 * second)}
		tr.Base = roundTrip(func(*http.Request) (*http.Response, error) { panic("base") })
		for range 200 { // more than there are slots
			assert.PanicsWithValue(t, "base", func() { tr.RoundTrip(call(t, "GET", "")) })
		}
		tr.Base = says(hangs, status(200))
		begun := time.Now()
		_, err := tr.RoundTrip(call(t, "GET", ""))
		require.NoError(t, err)
		assert.Equal(t, 11*second, time.Since(begun))
	})
}

func TestUploadIsReadOnlyWhenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := strings.NewReader("payload")
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://a/", io.NopCloser(body))
		require.NoError(t, err)
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, 7, body.Len())
			r.Body.Close()
			return status(200)(r)
		})
		_, err = send(t, base, timeout(second), r)
		require.NoError(t, err)
	})
}
