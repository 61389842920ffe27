package bench

import (
	"fmt"
	"math/bits"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Memories asks what keys cost while they are remembered, and whether that is
// given back.
var Memories = Group{"Memories", []Question{
	{Name: "1e6 keys", Base: XTimeMapName, Rounds: 3, Sides: keyed(fill), Metrics: []string{"B/key", "ns/insert"}},
	{
		Name: "flood of 200,000 addresses", Base: XTimeMapName, Rounds: 3, Sides: keyed(flood),
		Metrics: []string{"%-left", "MiB-flood", "µs-p99.99", "µs-worst"},
	},
}}

func keyed(run func(Decider, *testing.B)) []Side {
	var sides []Side
	for _, d := range Deciders {
		if !d.Alone {
			sides = append(sides, always(d.Name, once(func(b *testing.B) { run(d, b) })))
		}
	}
	return sides
}

// fill asks for each of a million fresh keys once. What the limiter keeps of a
// key counts, the string as well where it keeps that.
func fill(d Decider, b *testing.B) {
	n := small(1_000_000, 1_000)
	before := live()
	allow, stop := d.New(Lasting)
	began := time.Now()
	for i := range n {
		allow(key(i))
	}
	took := time.Since(began)
	b.ReportMetric(float64(live()-before)/float64(n), "B/key")
	b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/insert")
	runtime.KeepAlive(allow)
	stop()
}

// flood lets 200,000 addresses come once, in a regime in which they may be
// forgotten after a second, and goes on with a thousand for two and a half. Each
// decision is timed.
func flood(d Decider, b *testing.B) {
	life := small(time.Second, 20*time.Millisecond)
	n := small(200_000, 2_000)
	usual := make([]string, 1_000)
	for i := range usual {
		usual[i] = "192.0.2." + strconv.Itoa(i)
	}

	before := live()
	allow, stop := d.New(Regime{Count: 1, Burst: 1, Per: life, Expire: life})
	var times histogram
	for i := range n {
		address := fmt.Sprintf("2001:db8:%x:%x::", i>>16, i&0xffff)
		began := time.Now()
		allow(address)
		times.add(time.Since(began))
	}
	full := live()
	for began, i := time.Now(), 0; time.Since(began) < 5*life/2; i++ {
		at := time.Now()
		allow(usual[i%len(usual)])
		times.add(time.Since(at))
	}
	left := live()
	b.ReportMetric(100*max(0, float64(left-before)/float64(full-before)), "%-left")
	b.ReportMetric(float64(full-before)/(1<<20), "MiB-flood")
	b.ReportMetric(micros(times.quantile(0.9999)), "µs-p99.99")
	b.ReportMetric(micros(times.worst), "µs-worst")
	runtime.KeepAlive(allow)
	stop()
}

func live() int64 {
	runtime.GC()
	runtime.GC()
	return heap()
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// histogram counts durations in steps of a sixteenth of their power of two.
type histogram struct {
	counts [64 * 16]int
	n      int
	worst  time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.worst = max(h.worst, d)
	h.n++
	h.counts[step(uint64(max(d, 0)))]++
}

func (h *histogram) merge(other *histogram) {
	h.worst, h.n = max(h.worst, other.worst), h.n+other.n
	for i, n := range other.counts {
		h.counts[i] += n
	}
}

func step(v uint64) int {
	if v < 16 {
		return int(v)
	}
	power := bits.Len64(v) - 5
	return (power+1)<<4 + int(v>>power&15)
}

// quantile is the upper end of the step in which it lies.
func (h *histogram) quantile(q float64) time.Duration {
	left := int(q * float64(h.n))
	for i, n := range h.counts {
		if left -= n; left < 0 {
			if i < 16 {
				return time.Duration(i)
			}
			return min(h.worst, time.Duration(16+i&15+1)<<(i>>4-1)-1)
		}
	}
	return h.worst
}
