package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Loopback asks what is left of a client's throughput over a real connection, to
// a server in the same process.
var Loopback = Group{"Loopback", []Question{
	loopback("GET", 1, 0),
	loopback("GET", 64, 0),
	loopback("GET failing twice", 1, 2),
	loopback("GET failing twice", 64, 2),
}}

func loopback(name string, callers, failures int) Question {
	q := Question{
		Name: fmt.Sprintf("%s, callers %d", name, callers), Base: "passes through",
		Metrics: []string{"calls/s", "µs-CPU", "µs-p50", "µs-p99", "conns/call"},
	}
	for _, s := range Stacks {
		switch s.Name {
		case "bare", "passes through":
			if over := s.Over; failures > 0 {
				s.Over = func(base http.RoundTripper) http.RoundTripper { return again{over(base)} }
			}
		case "polite, fixed rate":
			continue
		}
		q.Sides = append(q.Sides, Side{s.Name, func() (func(*testing.B), func()) {
			server := newServer(callers, failures)
			wire := &wire{}
			rt := s.Over(&http.Transport{MaxIdleConnsPerHost: callers, DialContext: wire.dial})
			drive(rt, server.URL, callers, small(50*time.Millisecond, time.Millisecond)) // connect
			return once(func(b *testing.B) {
				conns, cpu := wire.count(), processorTime()
				times, took := drive(rt, server.URL, callers, small(300*time.Millisecond, time.Millisecond))
				used, n := processorTime()-cpu, float64(times.n)
				b.ReportMetric(n/took.Seconds(), "calls/s")
				b.ReportMetric(micros(used)/n, "µs-CPU")
				b.ReportMetric(micros(times.quantile(0.5)), "µs-p50")
				b.ReportMetric(micros(times.quantile(0.99)), "µs-p99")
				b.ReportMetric(float64(wire.count()-conns)/n, "conns/call")
			}), func() { wire.cut(); server.Close() }
		}})
	}
	return q
}

// drive sends requests with so many callers at once for d.
func drive(rt http.RoundTripper, url string, callers int, d time.Duration) (*histogram, time.Duration) {
	each := make([]histogram, callers)
	var done sync.WaitGroup
	began := time.Now()
	for i := range each {
		done.Go(func() {
			r := must(http.NewRequest(http.MethodGet, url, nil))
			r.Header.Set("Caller", strconv.Itoa(i))
			for {
				sent := time.Now()
				if each[i].n > 0 && sent.Sub(began) >= d {
					return
				}
				resp := must(rt.RoundTrip(r))
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					panic(resp.Status)
				}
				each[i].add(time.Since(sent))
			}
		})
	}
	done.Wait()
	took := time.Since(began)
	for i := range each[1:] {
		each[0].merge(&each[i+1])
	}
	return &each[0], took
}

// newServer answers so many tries of each caller's calls with 500.
func newServer(callers, failures int) *httptest.Server {
	tries := make([]atomic.Int64, callers)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failures > 0 {
			caller := must(strconv.Atoi(r.Header.Get("Caller")))
			if tries[caller].Add(1)%int64(failures+1) != 0 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
		io.WriteString(w, "{}")
	}))
}

// wire knows its connections, and can end those that a client leaks.
type wire struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err == nil {
		w.mu.Lock()
		w.conns = append(w.conns, c)
		w.mu.Unlock()
	}
	return c, err
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conns)
}

func (w *wire) cut() {
	for _, c := range w.conns {
		c.Close()
	}
}
