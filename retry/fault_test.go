package retry_test

import (
	"bufio"
	"context"
	"errors"
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

	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/retry"
)

// Some errors are of more than one attempt: a proof in one of them says
// nothing about the others.
func TestProofInEveryBranch(t *testing.T) {
	sent := errors.New("reset after the request was read")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errors.Join(sent, errRefused), false},
		{errors.Join(errRefused, sent), false},
		{fmt.Errorf("%w, then %w", sent, errRefused), false},
		{errors.Join(errRefused, errRefused), true},
		{fmt.Errorf("both: %w", errors.Join(errRefused, errRefused)), true},
		{errors.Join(sent, likeNetHTTP{1, 7, nil}), false},
		{&net.OpError{Op: "read", Err: errRefused}, false},
		{&retry.Error{Sent: 2, Tries: []retry.Try{{Err: sent}, {Err: errRefused, NeverProcessed: true}}}, false},
		{&retry.Error{Sent: 1, Tries: []retry.Try{{Err: errRefused}}}, false},
		{&retry.Error{Tries: []retry.Try{{Err: sent}}}, false}, // refused, which is not repeated either
	} {
		synctest.Test(t, func(t *testing.T) {
			base := says(fails(c.err), status(200))
			_, err := send(t, base, nil, call(t, "POST", "payload"))
			assert.Equal(t, c.want, err == nil, "%v", c.err)
		})
	}
}

// A circuit further down refused the last attempt; the first one was sent.
func TestRefusalInEveryBranch(t *testing.T) {
	refused := &open{left: second}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{refused, true},
		{fmt.Errorf("wrapped: %w", refused), true},
		{errors.Join(refused, &open{left: 3 * second}), true},
		{errors.Join(io.ErrUnexpectedEOF, refused), false},
		{&retry.Error{Sent: 1, Tries: []retry.Try{{Err: io.ErrUnexpectedEOF}, {Err: refused, Refused: true}}}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			base := says(fails(c.err), status(200))
			p := steady(func(p *retry.Policy) { p.OutlastOpen = true })
			_, never, err := do(t, &gate{base: base}, p, call(t, "POST", "payload"))
			assert.Equal(t, c.want, err == nil, "%v", c.err)
			if !c.want {
				var e *retry.Error
				require.ErrorAs(t, err, &e)
				assert.False(t, never)
				assert.False(t, e.Tries[0].Refused)
			}
		})
	}
}

// net/http repeats a call without a body by itself; the second dial proves
// nothing about what was sent over the first connection.
func TestDialAfterRepeatBelow(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for _, prove := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				l, processed := pipenet.Listen(), 0
				go func() {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					in := bufio.NewReader(conn)
					for range 2 {
						if _, err := http.ReadRequest(in); err != nil {
							return
						}
						if processed++; processed == 1 {
							io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
						}
					}
					l.Close()
					conn.Close()
				}()
				dials := 0
				base := &http.Transport{DialContext: l.DialContext}
				dial := base.DialContext
				base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if dials++; dials > 1 {
						return nil, errRefused
					}
					return dial(ctx, network, addr)
				}
				defer base.CloseIdleConnections()
				c := &retry.Call{
					Policy: &retry.Policy{MaxAttempts: 1}, State: new(retry.State), Prove: prove, Vouched: true,
					Sender: &gate{base: base},
				}
				for i := range 2 {
					c.Request = withKey(call(t, method, ""))
					resp, never, err := retry.Do(c)
					assert.False(t, never)
					if i == 0 {
						require.NoError(t, err)
						resp.Body.Close()
						continue
					}
					require.ErrorIs(t, err, errRefused)
					var e *retry.Error
					require.ErrorAs(t, err, &e)
					assert.False(t, e.Tries[0].NeverProcessed)
				}
				assert.Equal(t, 2, processed)
				assert.Equal(t, 2, dials)
			})
		}
	}
}

// broken is a body that fails halfway.
type broken struct {
	io.Reader
	err error
}

func (b *broken) Close() error { return nil }

func (b *broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

// What the caller did wrong is not tried again, costs no budget, proves nothing,
// and says nothing about the provider.
func TestFaults(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		for name, spoil := range map[string]func(*http.Request){
			"header":        func(r *http.Request) { r.Header.Set("X-A", "a\nb") },
			"header's name": func(r *http.Request) { r.Header["a b"] = []string{"c"} },
			"method":        func(r *http.Request) { r.Method = "P T" },
			"scheme":        func(r *http.Request) { r.URL.Scheme = "ftp" },
			"host":          func(r *http.Request) { r.URL.Host = "" },
			"too short":     func(r *http.Request) { r.ContentLength = 10 },
			"too long":      func(r *http.Request) { r.ContentLength = 3 },
			"body": func(r *http.Request) {
				r.ContentLength = 100
				r.Body = &broken{strings.NewReader("half"), errors.New("disk gone")}
			},
			"body that dials": func(r *http.Request) {
				r.ContentLength = 100
				r.Body = &broken{strings.NewReader("half"), errRefused}
			},
		} {
			t.Run(fmt.Sprint(name, timeout), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, base := pipenet.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						<-r.Context().Done() // an answer to what was sent so far would win the race
					}))
					defer base.CloseIdleConnections()
					r := withKey(call(t, "PUT", "payload"))
					spoil(r)
					budget := new(retry.Budget)
					faulty, sent := false, 0
					lost := 0 // attempts of which net/http, closing the connection, has lost the reason
					_, never, err := retry.Do(&retry.Call{
						Request: r, Vouched: true, State: new(retry.State), Prove: timeout > 0,
						Policy: steady(func(p *retry.Policy) {
							p.AttemptTimeout, p.Budget, p.Key = timeout, budget, func(*http.Request) string { return "k" }
						}),
						Sender: sender(func(a *retry.Attempt) (*http.Response, error) {
							sent++
							resp, err := a.RoundTrip(base)
							if faulty = a.Faulty; errors.Is(err, io.ErrClosedPipe) {
								lost++
							}
							return resp, err
						}),
					})
					require.Error(t, err)
					assert.True(t, faulty || lost == sent, "%v", err)
					assert.Equal(t, min(lost+1, 4), sent, "what is known to be at fault is not sent again")
					assert.False(t, never)
					// A retry costs a token, and ten seconds of waits bring one.
					retries := sent - 1
					waited := float64(int(1)<<retries - 1)
					assert.InDelta(t, 10-float64(retries)+waited/10, budget.Level("k", time.Now()), 0.01)
				})
			})
		}
	}
}

// A body that fails because the base has closed it is not at fault.
func TestBodyThatWasClosedIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		defer pw.Close()
		r := call(t, "PUT", "payload")
		r.Body, r.GetBody = pr, nil
		faulty := true
		_, _, err := retry.Do(&retry.Call{Request: r, State: new(retry.State), Sender: sender(func(a *retry.Attempt) (*http.Response, error) {
			resp, err := a.RoundTrip(roundTrip(func(r *http.Request) (*http.Response, error) {
				done := make(chan struct{})
				go func() { io.Copy(io.Discard, r.Body); close(done) }()
				synctest.Wait()
				r.Body.Close()
				<-done
				return nil, errReset
			}))
			faulty = a.Faulty
			return resp, err
		})})
		require.ErrorIs(t, err, errReset)
		assert.False(t, faulty)
	})
}

// A body in memory reaches the base as it is: net/http then sends it in one
// piece with the header.
func TestBodyInMemoryIsNotWrapped(t *testing.T) {
	for _, method := range []string{"PUT", "POST"} {
		r := call(t, method, "payload")
		body := r.Body
		_, err := send(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, body, r.Body)
			return status(200)(r)
		}), nil, r)
		require.NoError(t, err)
	}
}

type sender func(*retry.Attempt) (*http.Response, error)

func (s sender) Send(a *retry.Attempt) (*http.Response, error) { return s(a) }

// The fault is the caller's also when a Transport further down has seen it.
func TestFaultBelow(t *testing.T) {
	bad := errors.New(`net/http: invalid header field value for "A"`)
	for _, c := range []struct {
		tries []retry.Try
		want  bool
	}{
		{[]retry.Try{{Err: bad}}, true},
		{[]retry.Try{{Err: errReset}, {Err: bad}}, false},
	} {
		faulty := !c.want
		_, _, err := retry.Do(&retry.Call{
			Request: call(t, "POST", ""), State: new(retry.State),
			Sender: sender(func(a *retry.Attempt) (*http.Response, error) {
				resp, err := a.RoundTrip(says(fails(&retry.Error{Sent: len(c.tries), Tries: c.tries})))
				faulty = a.Faulty
				return resp, err
			}),
		})
		require.ErrorIs(t, err, bad)
		assert.Equal(t, c.want, faulty)
	}
}
