package rttest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// C1: "RoundTrip must return err == nil if it obtained a response, regardless
// of the response's HTTP status code." (net/http, RoundTripper)
func everyStatusIsAnAnswer(t *trial) {
	one := func(st step) func(*trial) {
		return func(t *trial) {
			status, body := t.fetch(t.wrap(newScript(st)), t.get())
			assert.Equal(t, st.status, status)
			assert.Equal(t, st.body, body)
		}
	}
	for _, status := range []int{200, 201, 206, 299, 304, 400, 401, 403, 404, 408, 409, 410, 418, 425, 429, 500, 501, 502, 503, 504, 599, 999} {
		t.in(fmt.Sprint(status), one(answer(status, "because")))
	}
	t.in("429 for a year", one(answer(429, "come back next year", "Retry-After", "31536000")))
	t.in("429 until the end of time", one(answer(429, "never", "Retry-After", "9223372037")))
	t.in("503 always", one(busy()))
}

// C2: "a non-nil err must be returned for failure to obtain a response", and
// never with a response: clients close none that comes with an error.
func aResponseOrAnError(t *trial) {
	one := func(name string, want bool, st ...step) {
		t.in(name, func(t *trial) {
			u := &uploads{}
			t.either(t.wrap(newScript(st...)), t.put(u), want)
		})
	}
	boom := errors.New("boom")
	one("200", true, answer(200, "ok"))
	one("503, 200", true, busy(), answer(200, "ok"))
	one("503 always", true, busy())
	one("dial fails always", false, fails(refused()))
	one("dial fails at last", t.noRetry, busy(), fails(refused()))
	one("an error that nobody knows", false, fails(boom))
	t.in("GetBody fails", func(t *trial) {
		resp, err := t.wrap(newScript(busy(), answer(200, "ok"))).RoundTrip(t.put(&uploads{fail: boom}))
		assert.True(t, (resp == nil) != (err == nil), "response %v, error %v: want just one", resp, err)
		end(resp)
	})
	t.in("cancelled before", func(t *trial) {
		ctx, cancel := t.context()
		cancel(nil)
		t.either(t.wrap(newScript(answer(200, "ok"))), t.get().WithContext(ctx), false)
	})
	t.refusals(func(t *trial, rt http.RoundTripper, _ *script) { t.either(rt, t.get(), false) })
}

// either requires just a response or just an error.
func (t *trial) either(rt http.RoundTripper, r *http.Request, response bool) {
	resp, err := rt.RoundTrip(r)
	defer end(resp)
	assert.Equal(t, response, resp != nil, "a response (error: %v)", err)
	assert.Equal(t, !response, err != nil, "an error: %v", err)
}

// C3: "RoundTrip should not attempt to handle higher-level protocol details
// such as redirects". An inner http.Client does, and so does one that stops at
// once: it parses Location first, and fails where the caller would not.
func redirectsAreReturned(t *trial) {
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		for _, location := range []string{"/elsewhere", "http://other.test/", "http://[::1", "", "%zz"} {
			t.in(fmt.Sprintf("%d to %q", status, location), func(t *trial) {
				st := answer(status, "moved")
				if location != "" {
					st.header.Set("Location", location)
				}
				base := newScript(st)
				resp := t.respond(t.wrap(base), t.put(&uploads{}))
				assert.Equal(t, status, resp.StatusCode)
				assert.Equal(t, st.header, resp.Header)
				assert.Equal(t, "moved", t.read(resp))
				assert.Equal(t, 1, base.calls(), "calls of the base")
			})
		}
	}
}

// C11: Response.Body: "The http Client and Transport guarantee that Body is
// always non-nil, even on responses without a body". Test doubles below do not.
func bodyIsNeverNil(t *trial) {
	one := func(name, method string, st ...step) {
		t.in(name, func(t *trial) {
			resp := t.respond(t.wrap(newScript(st...)), t.request(method, nil))
			if assert.NotNil(t, resp.Body, "response body") {
				t.read(resp)
			}
		})
	}
	one("204", "GET", answer(204, ""))
	one("304", "GET", answer(304, ""))
	one("HEAD", "HEAD", answer(200, ""))
	one("503 always", "GET", busy())
	one("503, 204", "DELETE", busy(), answer(204, ""))
	if t.retrying() {
		none := busy()
		none.nilBody = true
		one("the base leaves a 503's nil", "GET", none, answer(200, "ok"))
		one("the base leaves every 503's nil", "GET", none)
		one("the base leaves a 200's nil", "GET", step{status: 200, nilBody: true, header: http.Header{}})
	}
}

// C12: Response.Request "is the request that was sent to obtain this Response":
// to the caller that is its own, not a copy made below.
func responseNamesRequest(t *trial) {
	one := func(name string, st ...step) {
		t.in(name, func(t *trial) {
			r := t.put(&uploads{})
			resp := t.respond(t.wrap(newScript(st...)), r)
			assert.Same(t, r, resp.Request)
		})
	}
	one("200", answer(200, "ok"))
	one("404", answer(404, "no"))
	one("302", answer(302, "moved", "Location", "/elsewhere"))
	one("503, 200", busy(), answer(200, "ok"))
	one("503 always", busy())
}

// C13: what the base says of a response is what the caller sees, and its body
// streams: a RoundTripper "should not attempt to interpret the response".
func responseIsIntact(t *trial) {
	one := func(name string, before ...step) {
		t.in(name, func(t *trial) {
			content := bytes.Repeat([]byte("0123456789abcdef"), 4096)
			state, file := &tls.ConnectionState{ServerName: "provider.test"}, &download{Reader: bytes.NewReader(content)}
			want := http.Response{
				Status: "299 Odd", StatusCode: 299, Proto: "HTTP/2.0", ProtoMajor: 2,
				Header:           http.Header{"X-Odd": {"1", "2"}, "Set-Cookie": {"a=b"}},
				ContentLength:    int64(len(content)),
				TransferEncoding: []string{"chunked"}, Close: true, Uncompressed: true, TLS: state,
				Trailer: http.Header{"X-Sum": nil},
			}
			odd := step{do: func(r *http.Request) (*http.Response, error) {
				resp := want
				resp.Body, resp.Request = file, r
				resp.Header, resp.Trailer = want.Header.Clone(), want.Trailer.Clone()
				return &resp, nil
			}}
			resp := t.respond(t.wrap(newScript(append(before, odd)...)), t.get())
			assert.Zero(t, file.read.Load(), "bytes read before the caller has the response")
			got := *resp
			got.Body, got.Request = nil, nil
			assert.Equal(t, want, got)
			assert.Equal(t, string(content), t.read(resp), "response body")
			assert.Positive(t, file.closes.Load(), "closes of the base's body")
		})
	}
	one("first attempt")
	if t.retrying() {
		one("second attempt", busy())
	}
	t.in("the last of many 503", func(t *trial) {
		base := newScript(answer(503, strings.Repeat("busy ", 20_000), "Retry-After", "1"))
		resp := t.respond(t.wrap(base), t.get())
		assert.Zero(t, base.last().read.Load(), "bytes read before the caller has the response")
		assert.Len(t, t.read(resp), 100_000)
	})
	t.in("streams", func(t *trial) {
		_, rt := t.serve(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "first,")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, "last")
		})
		start := time.Now()
		resp := t.respond(rt, t.get())
		assert.Zero(t, time.Since(start), "time to the response head")
		assert.Equal(t, "first,last", t.read(resp))
		assert.Equal(t, time.Hour, time.Since(start), "time to the end of the body")
	})
}

// C14: Response.Trailer is filled at the body's end, in the response the caller
// holds; announced ones are there before, with nil values.
func trailerArrives(t *trial) {
	for _, announced := range []bool{true, false} {
		var calls int
		_, rt := t.serve(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls == 1 && t.retrying() {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if announced {
				w.Header().Set("Trailer", "X-Sum")
			}
			_, _ = io.WriteString(w, "data")
			_ = http.NewResponseController(w).Flush() // in chunks, or there is no place for a trailer
			if announced {
				w.Header().Set("X-Sum", "42")
			}
			w.Header().Set(http.TrailerPrefix+"X-Late", "43") // never announced
		})
		before, after := http.Header(nil), http.Header{"X-Late": {"43"}}
		if announced {
			before, after = http.Header{"X-Sum": nil}, http.Header{"X-Sum": {"42"}, "X-Late": {"43"}}
		}
		for _, name := range []string{"after a retry", "first attempt"} {
			t.in(fmt.Sprintf("%s, announced %t", name, announced), func(t *trial) {
				resp := t.respond(rt, t.get())
				assert.Equal(t, before, resp.Trailer, "trailer before the end")
				assert.Equal(t, "data", t.read(resp))
				assert.Equal(t, after, resp.Trailer, "trailer after the end")
			})
		}
	}
}

// C15: "As of Go 1.12, the Body will also implement io.Writer on a successful
// 101 Switching Protocols response", and no time limit tears the tunnel.
func tunnelIsWritable(t *trial) {
	_, rt := t.serve(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(c, rw)
	})
	r := t.get()
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp := t.respond(rt, r)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	tunnel, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok, "the body is a %T, want an io.ReadWriteCloser", resp.Body)
	lines := bufio.NewReader(tunnel)
	for _, line := range []string{"at once\n", "an hour later\n"} {
		_, err := io.WriteString(tunnel, line)
		require.NoError(t, err)
		got, err := lines.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, line, got)
		time.Sleep(time.Hour)
	}
	assert.NoError(t, tunnel.Close())
}

// C25: whoever asks an error with errors.As or errors.Is finds what the base said.
func errorsAsFindsCause(t *trial) {
	boom := errors.New("boom")
	fetch := func(name string, cause error, find func(*trial, error)) {
		t.in(name, func(t *trial) {
			resp, err := t.wrap(newScript(fails(cause))).RoundTrip(t.get())
			defer end(resp)
			require.Error(t, err)
			assert.ErrorIs(t, err, cause)
			find(t, err)
		})
	}
	fetch("refused", refused(), func(t *trial, err error) {
		var op *net.OpError
		if assert.ErrorAs(t, err, &op) {
			assert.Equal(t, "dial", op.Op)
		}
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
	fetch("certificate", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, func(t *trial, err error) {
		var bad *tls.CertificateVerificationError
		assert.ErrorAs(t, err, &bad)
		var unknown x509.UnknownAuthorityError
		assert.ErrorAs(t, err, &unknown)
	})
	fetch("deadline", context.DeadlineExceeded, func(t *trial, err error) {
		var timeout interface{ Timeout() bool }
		if assert.ErrorAs(t, err, &timeout) {
			assert.True(t, timeout.Timeout(), "Timeout()")
		}
	})
	fetch("unexpected end", io.ErrUnexpectedEOF, func(*trial, error) {})
	fetch("an error that nobody knows", boom, func(*trial, error) {})
}
