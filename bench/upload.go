package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/retry"
)

const uploadSize = 64 << 20

// Uploaders are clients for [Upload]: each is to send a request again that was
// answered 503.
var Uploaders = []Stack{
	{"polite", func(base http.RoundTripper) http.RoundTripper {
		t := polite.NewTransport(base)
		t.Retry.Base, t.Retry.Budget = -1, retry.NoBudget
		t.Pacer = nil // a refusal without a word would slow it down
		return t
	}},
	{"hand-made", HandMade},
	{"hand-made, rehttp", HandMadeRehttp},
	{"failsafe-go", Failsafe},
	{"azcore", Azcore},
}

// Uploads asks what a client holds in memory of what it sends.
var Uploads = Group{"Uploads", []Question{{
	Name: "64 MiB with GetBody, two failures first", Base: "hand-made", Rounds: 3,
	Sides: uploads(), Metrics: []string{"MiB-peak", "sec/op"},
}}}

func uploads() []Side {
	var sides []Side
	for _, s := range Uploaders {
		sides = append(sides, always(s.Name, once(func(b *testing.B) {
			began := time.Now()
			peak := must(Upload(s))
			b.ReportMetric(float64(peak)/(1<<20), "MiB-peak")
			b.ReportMetric(time.Since(began).Seconds(), "sec/op")
		})))
	}
	return sides
}

// Upload sends 64 MiB over loopback from a reader that cannot seek, with a
// GetBody, through s to a server that reads all and fails twice. It returns the
// peak growth of the heap, garbage included, sampled every half millisecond.
func Upload(s Stack) (peak int64, err error) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if n.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	rt := s.Over(base)

	debug.FreeOSMemory()
	before := heap()
	stop, stopped := make(chan struct{}), sync.WaitGroup{}
	stopped.Go(func() {
		tick := time.NewTicker(500 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, heap()-before)
			case <-stop:
				return
			}
		}
	})
	r, err := http.NewRequest(http.MethodPut, server.URL, &stream{uploadSize})
	if err == nil {
		r.ContentLength = uploadSize
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(&stream{uploadSize}), nil }
		var resp *http.Response
		if resp, err = rt.RoundTrip(r); err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || n.Load() != 3 {
				err = fmt.Errorf("status %d after %d attempts", resp.StatusCode, n.Load())
			}
		}
	}
	close(stop)
	stopped.Wait()
	return peak, err
}

func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// stream is a body that is nowhere in memory.
type stream struct{ left int64 }

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), s.left)
	s.left -= n
	return int(n), nil
}
