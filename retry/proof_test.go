package retry_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/internal/pipenet"
	"github.com/politehttp/polite/retry"
)

// A POST without a key goes again if, and only if, it was never processed.
func TestProofByTheError(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errRefused, true},
		{fmt.Errorf("wrapped: %w", errRefused), true},
		{&net.OpError{Op: "proxyconnect", Err: errRefused}, true},
		{&net.OpError{Op: "proxyconnect", Err: other}, true},
		{&net.OpError{Op: "write", Err: other}, false},
		{&net.OpError{Op: "read", Err: other}, false},
		{io.EOF, false},
		{other, false},
		{context.DeadlineExceeded, false},
		{errors.New("http2: Transport received Server's graceful shutdown GOAWAY"), true},
		{errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"), true},
		{errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug="stream error: stream ID 1; REFUSED_STREAM"`), false},
		{errors.New("stream error: stream ID 7; REFUSED_STREAM; received from peer"), true},
		{errors.New("stream error: stream ID 7; REFUSED_STREAM"), true},
		{errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"), false},
		{errors.New("stream error: stream ID 7; CANCEL; REFUSED_STREAM"), false},
		{errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define"), true},
		{errors.New("http2: Transport: cannot retry err [stream error: stream ID 7; REFUSED_STREAM; received from peer] after Request.Body was written; define"), true},
		{errors.New("http2: Transport: cannot retry err [stream error: stream ID 7; PROTOCOL_ERROR; received from peer] after Request.Body was written; define"), false},
		{fmt.Errorf("wrapped: %w", likeNetHTTP{1, 7, nil}), true},
		{likeNetHTTP{1, 8, nil}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			base := says(fails(c.err), status(200))
			_, err := send(t, base, nil, call(t, "POST", "payload"))
			assert.Equal(t, c.want, err == nil, "%v", c.err)
		})
	}
}

// likeNetHTTP is a stream error as net/http has it: it fills any struct with
// fields like its own.
type likeNetHTTP struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (likeNetHTTP) Error() string { return "a text that may change" }

func (e likeNetHTTP) As(target any) bool {
	dst, src := reflect.ValueOf(target).Elem(), reflect.ValueOf(e)
	if dst.Kind() != reflect.Struct || dst.NumField() != src.NumField() {
		return false
	}
	for i := range src.NumField() {
		if dst.Type().Field(i).Name != src.Type().Field(i).Name {
			return false
		}
	}
	for i := range src.NumField() {
		if src.Field(i).Kind() != reflect.Interface {
			dst.Field(i).Set(src.Field(i).Convert(dst.Field(i).Type()))
		}
	}
	return true
}

// A base that shows no trace events proves nothing.
func TestProofByTheTrace(t *testing.T) {
	boom := errors.New("boom")
	events := func(names ...string) answer {
		return func(r *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(r.Context())
			for _, name := range names {
				switch name {
				case "get":
					trace.GetConn("a:80")
				case "got":
					trace.GotConn(httptrace.GotConnInfo{})
				}
			}
			return nil, boom
		}
	}
	for _, c := range []struct {
		name string
		base answer
		want bool
	}{
		{"no events", fails(boom), false},
		{"wanted", events("get"), true},
		{"wanted and got", events("get", "got"), false},
		{"got, then wanted another", events("get", "got", "get"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := 0
				r := with(call(t, "POST", "payload"), func(ctx context.Context) context.Context {
					return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) { seen++ }})
				})
				base := says(c.base, status(200))
				_, err := send(t, base, nil, r)
				assert.Equal(t, c.want, err == nil)
				if c.name != "no events" {
					assert.Positive(t, seen, "the caller's own trace")
				}
			})
		})
	}
}

// The trace is installed where it can matter, for it costs.
func TestTraceIsInstalledOnlyWhereItCanMatter(t *testing.T) {
	stream := call(t, "POST", "payload")
	stream.GetBody = nil
	for _, c := range []struct {
		name  string
		r     *http.Request
		prove bool
		want  bool
	}{
		{"GET", call(t, "GET", ""), false, false},
		{"GET for a quota", call(t, "GET", ""), true, true},
		{"POST", call(t, "POST", "payload"), false, true},
		{"POST without a body", call(t, "POST", ""), false, true},
		{"POST with a key", withKey(call(t, "POST", "payload")), false, false},
		{"POST, marked", with(call(t, "POST", "payload"), retry.WithIdempotent), false, false},
		{"POST of a stream", stream, false, false},
	} {
		traced := false
		g := &gate{base: roundTrip(func(r *http.Request) (*http.Response, error) {
			traced = httptrace.ContextClientTrace(r.Context()) != nil
			return status(200)(r)
		})}
		_, _, err := retry.Do(&retry.Call{
			Request: c.r, Prove: c.prove, Sender: g, State: new(retry.State),
			Vouched: c.r.Header.Get("Idempotency-Key") != "",
		})
		require.NoError(t, err)
		assert.Equal(t, c.want, traced, c.name)
	}
}

// frame is one of HTTP/2 (RFC 9113 section 4.1).
func frame(kind byte, stream uint32, payload ...byte) []byte {
	b := append([]byte{0, 0, byte(len(payload)), kind, 0, 0, 0, 0, 0}, payload...)
	binary.BigEndian.PutUint32(b[5:], stream)
	return b
}

const (
	headersFrame  = 1
	rstFrame      = 3
	settingsFrame = 4
	goAwayFrame   = 7
)

// serveFrames speaks HTTP/2 as far as the request's header, which answer
// answers with a frame.
func serveFrames(l net.Listener, answer func(stream uint32) []byte) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			out := make(chan []byte, 100)
			defer close(out)
			go func() { // net.Pipe has no buffer
				for b := range out {
					conn.Write(b)
				}
			}()
			io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
			out <- frame(settingsFrame, 0)
			for {
				var head [9]byte
				if _, err := io.ReadFull(conn, head[:]); err != nil {
					return
				}
				length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
				io.CopyN(io.Discard, conn, length)
				if head[3] == headersFrame {
					out <- answer(binary.BigEndian.Uint32(head[5:]))
				}
			}
		}()
	}
}

// What net/http makes of HTTP/2's promises is recognised, whose types it keeps
// to itself.
func TestProofByHTTP2(t *testing.T) {
	word := func(v ...uint32) (b []byte) {
		for _, w := range v {
			b = binary.BigEndian.AppendUint32(b, w)
		}
		return b
	}
	refuse := func(s uint32) []byte { return frame(rstFrame, s, word(7)...) }
	for _, c := range []struct {
		name   string
		answer func(uint32) []byte
		body   string // with one that it cannot rewind, net/http hides why it failed behind a text
		want   bool
	}{
		{"REFUSED_STREAM", refuse, "", true},
		{"REFUSED_STREAM, body", refuse, "payload", true},
		{"INTERNAL_ERROR", func(s uint32) []byte { return frame(rstFrame, s, word(2)...) }, "", false},
		// Without an error net/http goes to another connection by itself, for ever.
		{"GOAWAY with an error", func(uint32) []byte { return frame(goAwayFrame, 0, word(0, 11)...) }, "", true},
		{"graceful GOAWAY, body", func(uint32) []byte { return frame(goAwayFrame, 0, word(0, 0)...) }, "payload", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := pipenet.Listen()
				go serveFrames(l, c.answer)
				base := &http.Transport{DialContext: l.DialContext, Protocols: new(http.Protocols)}
				base.Protocols.SetUnencryptedHTTP2(true)
				sent := 0
				g := &gate{base: roundTrip(func(r *http.Request) (*http.Response, error) {
					if sent++; sent > 1 {
						return status(200)(r)
					}
					r = r.Clone(r.Context())
					r.GetBody = nil
					resp, err := base.RoundTrip(r)
					assert.Error(t, err)
					return resp, err
				})}
				resp, never, err := do(t, g, nil, call(t, "POST", c.body))
				assert.Equal(t, c.want, err == nil, "%v", err)
				assert.False(t, never)
				if resp != nil {
					resp.Body.Close()
				}
				base.CloseIdleConnections()
				l.Cut()
				l.Close()
				time.Sleep(time.Minute)
			})
		})
	}
}
