package integration

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Over HTTP/2 a server can say that it did not touch a request: it refuses the
// stream, or goes away with a last stream before it (RFC 9113, section 8.7).
// Then any request is repeated; one reset otherwise may have been acted upon.
func TestHTTP2SaysWhatWasNeverProcessed(t *testing.T) {
	t.Parallel()
	for _, s := range senders {
		for _, f := range []h2Fault{h2Refuse, h2GoAway, h2Reset} {
			t.Run(string(f)+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				server := newH2Server(t, f)
				base := newBase(t)
				base.TLSClientConfig = &tls.Config{RootCAs: server.roots.RootCAs}
				r := s.make(t.Context(), "https://"+server.ln.Addr().String()+"/")
				if f != h2Reset && r.Body != nil && r.GetBody == nil {
					t.Skip("nothing helps a body that is gone")
				}
				resp, err := newClient(base).RoundTrip(r)
				switch {
				case f == h2Reset && s.safe:
					require.NoError(t, err)
					assert.Equal(t, 2, server.processed(), "requests acted upon")
				case f == h2Reset:
					require.Error(t, err)
					assert.Equal(t, 1, server.processed(), "requests acted upon: never twice")
					return
				default:
					require.NoError(t, err)
					assert.Equal(t, 1, server.processed(), "requests acted upon")
				}
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.Equal(t, 2, resp.ProtoMajor, "HTTP version")
			})
		}
	}
}

type h2Fault string

const (
	h2Refuse h2Fault = "stream refused"
	h2GoAway h2Fault = "server goes away"
	h2Reset  h2Fault = "stream reset after the request was read"
)

// h2Server speaks just enough HTTP/2 to spoil its first request, which net/http's
// own server will not do, and to answer 200 to the others.
type h2Server struct {
	ln    net.Listener
	roots *tls.Config

	mu    sync.Mutex
	fault h2Fault // of the next request; then none
	acted int
	open  []net.Conn
	wg    sync.WaitGroup
}

func newH2Server(t *testing.T, f h2Fault) *h2Server {
	t.Helper()
	lender := httptest.NewTLSServer(nil) // of a certificate that its client trusts
	defer lender.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: lender.TLS.Certificates, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	s := &h2Server{ln: ln, roots: lender.Client().Transport.(*http.Transport).TLSClientConfig, fault: f}
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open = append(s.open, c)
			s.mu.Unlock()
			s.wg.Go(func() {
				_ = s.serve(c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.mu.Lock()
		for _, c := range s.open {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *h2Server) processed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acted
}

// Frame types, flags and error codes of RFC 9113, sections 6 and 7.
const (
	h2Data, h2Headers, h2RstStream, h2Settings, h2Ping, h2GoAwayFrame = 0, 1, 3, 4, 6, 7

	h2EndStream, h2Ack, h2EndHeaders = 1, 1, 4

	h2NoError, h2InternalError, h2RefusedStream = 0, 2, 7
)

func (s *h2Server) serve(c net.Conn) error {
	if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return err
	}
	if err := writeFrame(c, h2Settings, 0, 0, nil); err != nil {
		return err
	}
	spoiled := make(map[uint32]bool) // streams refused or left behind
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		payload := make([]byte, length)
		if _, err := io.ReadFull(c, payload); err != nil {
			return err
		}
		var err error
		switch {
		case kind == h2Settings && flags&h2Ack == 0:
			err = writeFrame(c, h2Settings, h2Ack, 0, nil)
		case kind == h2Ping && flags&h2Ack == 0:
			err = writeFrame(c, h2Ping, h2Ack, 0, payload)
		case kind == h2Headers || kind == h2Data:
			if kind == h2Headers {
				spoiled[stream], err = s.untouched(c, stream)
			}
			if err == nil && flags&h2EndStream != 0 && !spoiled[stream] {
				err = s.act(c, stream)
			}
		}
		if err != nil {
			return err
		}
	}
}

// untouched turns a request away by its first frame, if that is its fault.
func (s *h2Server) untouched(c net.Conn, stream uint32) (bool, error) {
	switch {
	case s.take(h2Refuse):
		return true, writeFrame(c, h2RstStream, 0, stream, word(h2RefusedStream))
	case s.take(h2GoAway):
		return true, writeFrame(c, h2GoAwayFrame, 0, 0, append(word(stream-1), word(h2NoError)...))
	}
	return false, nil
}

// act does what a request asks for, and may keep it to itself.
func (s *h2Server) act(c net.Conn, stream uint32) error {
	s.mu.Lock()
	s.acted++
	s.mu.Unlock()
	if s.take(h2Reset) {
		return writeFrame(c, h2RstStream, 0, stream, word(h2InternalError))
	}
	return writeFrame(c, h2Headers, h2EndStream|h2EndHeaders, stream, []byte{0x88}) // ":status: 200" in HPACK's static table
}

// take tells whether this is the fault to come, which it then no longer is.
func (s *h2Server) take(f h2Fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != f {
		return false
	}
	s.fault = ""
	return true
}

func writeFrame(w io.Writer, kind, flags byte, stream uint32, payload []byte) error {
	n := len(payload)
	frame := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, word(stream)...)
	_, err := w.Write(append(frame, payload...))
	return err
}

func word(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
