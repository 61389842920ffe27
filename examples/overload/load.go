package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// order is what a load is to do; it stands in the standard input of its process.
type order struct {
	URL     string
	Rate    float64 // a second, at random moments; 0: Callers, each one request after the other
	Callers int
	Period  time.Duration
	Timeout time.Duration
}

// tally is what came of a second, or of all. Requests count when they end.
type tally struct {
	Sent, Served, Refused, TimedOut, Failed int
	Problem                                 string // of the first that failed
}

func (t *tally) add(other tally) {
	t.Sent += other.Sent
	t.Served += other.Served
	t.Refused += other.Refused
	t.TimedOut += other.TimedOut
	t.Failed += other.Failed
	if t.Problem == "" {
		t.Problem = other.Problem
	}
}

// news is a line that a load writes: every second, and at the end.
type news struct {
	Second tally
	Over   bool
	Took   []time.Duration // of those that were served: the percentiles 0, 1, … 100
}

// mostOpen bounds what a load has under way.
const mostOpen = 20_000

// caller sends requests and counts.
type caller struct {
	order
	client *http.Client
	open   atomic.Int64

	mu     sync.Mutex
	second tally
	took   []time.Duration
}

// load does as it is told, and returns the exit code of its process.
func load(ctx context.Context, in io.Reader, out io.Writer) int {
	c := new(caller)
	if err := json.NewDecoder(in).Decode(&c.order); err != nil {
		os.Stderr.WriteString("overload: " + err.Error() + "\n")
		return 1
	}
	c.client = &http.Client{Timeout: c.Timeout, Transport: &http.Transport{
		DialContext: dial, MaxIdleConnsPerHost: mostOpen, DisableCompression: true,
	}}
	ctx, cancel := context.WithTimeout(ctx, c.Period)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if c.Rate > 0 {
			c.atRandom(ctx)
		} else {
			c.oneAfterTheOther(ctx)
		}
	}()
	lines, tick := json.NewEncoder(out), time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			lines.Encode(news{Second: c.taken()})
		case <-ended:
			last := news{Second: c.taken(), Over: true}
			c.mu.Lock()
			last.Took = percentiles(c.took)
			c.mu.Unlock()
			lines.Encode(last)
			return 0
		}
	}
}

// dial makes connections that leave nothing behind when they are cut, or those
// of clients that gave up would use up the ports of this machine.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	return conn, err
}

// atRandom sends so many a second, whatever becomes of them.
func (c *caller) atRandom(ctx context.Context) {
	begin, at := time.Now(), 0.0
	for {
		at += rand.ExpFloat64() / c.Rate
		if wait := time.Until(begin.Add(time.Duration(at * float64(time.Second)))); wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		} else if ctx.Err() != nil {
			return
		}
		if c.open.Load() < mostOpen {
			c.open.Add(1)
			go func() {
				defer c.open.Add(-1)
				c.call(ctx)
			}()
		}
	}
}

func (c *caller) oneAfterTheOther(ctx context.Context) {
	var all sync.WaitGroup
	for range c.Callers {
		all.Go(func() {
			for ctx.Err() == nil {
				c.call(ctx)
			}
		})
	}
	all.Wait()
}

// call sends one request. One that is cut off by the end does not count.
func (c *caller) call(ctx context.Context) {
	begin := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		c.count(tally{Failed: 1, Problem: err.Error()}, 0)
		return
	}
	resp, err := c.client.Do(r)
	status := 0
	if err == nil {
		status = resp.StatusCode
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	took := time.Since(begin)
	var slow interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &slow) && slow.Timeout():
		c.count(tally{TimedOut: 1}, 0)
	case err != nil:
		c.count(tally{Failed: 1, Problem: err.Error()}, 0)
	case status == http.StatusOK:
		c.count(tally{Served: 1}, took)
	case status == http.StatusServiceUnavailable:
		c.count(tally{Refused: 1}, 0)
	default:
		c.count(tally{Failed: 1, Problem: resp.Status}, 0)
	}
}

func (c *caller) count(t tally, took time.Duration) {
	t.Sent = 1
	c.mu.Lock()
	defer c.mu.Unlock()
	c.second.add(t)
	if t.Served > 0 {
		c.took = append(c.took, took)
	}
}

// taken is what was counted since it was last called.
func (c *caller) taken() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.second
	c.second = tally{}
	return t
}

// percentiles are the 0th to the 100th.
func percentiles(all []time.Duration) []time.Duration {
	if len(all) == 0 {
		return make([]time.Duration, 101)
	}
	slices.Sort(all)
	p := make([]time.Duration, 101)
	for i := range p {
		p[i] = all[i*(len(all)-1)/100]
	}
	return p
}
