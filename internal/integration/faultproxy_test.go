package integration

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fault is what happens to one request on its way through the proxy.
type fault string

const (
	pass        fault = "passes"
	resetUnread fault = "reset before the request is read"
	resetRead   fault = "reset after the request was read"    // and acted upon
	halfHeader  fault = "the response ends within its header" // likewise
	midBody     fault = "reset in the middle of the response" // likewise
	silent      fault = "the server never answers"            // likewise
)

// faultProxy is a TCP proxy that spoils requests, the first one of its plan
// first, and passes what comes after. What reaches the server behind it has
// been acted upon, whatever its sender hears of it.
type faultProxy struct {
	ln     net.Listener
	server *httptest.Server
	cut    chan struct{} // the test's word that the first half is there
	tunnel bool          // passes bytes, as it must for TLS; then only resetUnread is possible

	mu    sync.Mutex
	plan  []fault
	acted []string // "METHOD key body", as the server saw them
	open  map[net.Conn]struct{}
	wg    sync.WaitGroup
}

const answerSize = 10_000

func newFaultProxy(t *testing.T, tls bool) *faultProxy {
	t.Helper()
	p := &faultProxy{tunnel: tls, cut: make(chan struct{}, 1), open: make(map[net.Conn]struct{})}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.acted = append(p.acted, strings.TrimSpace(r.Method+" "+r.Header.Get("Idempotency-Key")+" "+string(body)))
		p.mu.Unlock()
		w.Header().Set("Content-Length", strconv.Itoa(answerSize))
		_, _ = io.WriteString(w, strings.Repeat("x", answerSize))
	}))
	if tls {
		p.server.StartTLS()
	} else {
		p.server.Start()
	}
	var err error
	p.ln, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = p.ln.Close()
		close(p.cut)
		p.mu.Lock()
		for c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.server.Close()
		p.wg.Wait()
	})
	return p
}

func (p *faultProxy) url() string {
	scheme, _, _ := strings.Cut(p.server.URL, ":")
	return scheme + "://" + p.ln.Addr().String() + "/"
}

// spoil sets what happens to the next requests.
func (p *faultProxy) spoil(plan ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan, p.acted = plan, nil
}

func (p *faultProxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acted
}

func (p *faultProxy) next() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.plan) == 0 {
		return pass
	}
	f := p.plan[0]
	p.plan = p.plan[1:]
	return f
}

func (p *faultProxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.open[c] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() {
			defer func() {
				_ = c.Close()
				p.mu.Lock()
				delete(p.open, c)
				p.mu.Unlock()
			}()
			if p.tunnel {
				p.relayBytes(c)
			} else {
				p.relayRequests(c)
			}
		})
	}
}

// relayRequests takes one request after the other off the connection.
func (p *faultProxy) relayRequests(c net.Conn) {
	from := bufio.NewReader(c)
	for {
		if _, err := from.Peek(1); err != nil {
			return
		}
		f := p.next()
		if f == resetUnread {
			reset(c)
			return
		}
		answer, err := p.forward(from)
		if err != nil {
			return
		}
		switch f {
		case pass:
			if _, err := c.Write(answer); err != nil {
				return
			}
			continue
		case resetRead:
			reset(c)
		case halfHeader:
			_, _ = c.Write(answer[:25])
		case midBody:
			head := bytes.Index(answer, []byte("\r\n\r\n")) + 4
			_, _ = c.Write(answer[:head+answerSize/2])
			<-p.cut // a reset overtakes what was sent: wait until it has arrived
			reset(c)
		case silent:
			_, _ = from.Peek(1)
		}
		return
	}
}

// forward sends one request on and returns the whole answer.
func (p *faultProxy) forward(from *bufio.Reader) ([]byte, error) {
	r, err := http.ReadRequest(from)
	if err != nil {
		return nil, err
	}
	r.RequestURI = ""
	r.URL.Scheme, r.URL.Host = "http", p.server.Listener.Addr().String()
	resp, err := p.server.Client().Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer bytes.Buffer
	err = resp.Write(&answer)
	return answer.Bytes(), err
}

func (p *faultProxy) relayBytes(c net.Conn) {
	if p.next() == resetUnread {
		reset(c)
		return
	}
	to, err := net.Dial("tcp", p.server.Listener.Addr().String())
	if err != nil {
		return
	}
	p.wg.Go(func() {
		_, _ = io.Copy(to, c)
		_ = to.Close()
	})
	_, _ = io.Copy(c, to)
}

// reset closes with a RST, as a crash or a firewall does, not with a FIN.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}
