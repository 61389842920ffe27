package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// The load comes from a process of its own, as little of one as can be: what it
// uses is not the server's, and what a server costs shows in what is left to it.
const loadVariable = "POLITE_BENCH_LOAD"

type load struct {
	Addr  string
	Conns int
	For   time.Duration
}

type served struct {
	N        int // requests
	Took     time.Duration
	P50, P99 time.Duration
	Status   int // of the last answer
}

// ActAsLoad makes this process the load, if it was started for that, and does not
// return then. A program that runs [Middlewares] calls it first.
func ActAsLoad() {
	asked := os.Getenv(loadVariable)
	if asked == "" {
		return
	}
	runtime.GOMAXPROCS(1)
	var l load
	err := json.Unmarshal([]byte(asked), &l)
	if err == nil {
		var s served
		if s, err = l.send(); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(s)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run starts the process and waits for what it found.
func (l load) run() (s served, err error) {
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	asked, err := json.Marshal(l)
	if err != nil {
		return s, err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), loadVariable+"="+string(asked))
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

func (l load) send() (served, error) {
	times := make([]histogram, l.Conns)
	statuses := make([]int, l.Conns)
	errs := make([]error, l.Conns)
	var done sync.WaitGroup
	began := time.Now()
	for i := range l.Conns {
		done.Go(func() { statuses[i], errs[i] = l.talk(&times[i], began.Add(l.For)) })
	}
	done.Wait()
	took := time.Since(began)
	for i := range times[1:] {
		times[0].merge(&times[i+1])
	}
	return served{
		N: times[0].n, Took: took, Status: statuses[0],
		P50: times[0].quantile(0.5), P99: times[0].quantile(0.99),
	}, errors.Join(errs...)
}

// talk sends one request after the other on a connection. It reads as much of
// the answers as it needs to tell where each ends.
func (l load) talk(times *histogram, until time.Time) (status int, err error) {
	c, err := net.Dial("tcp", l.Addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	request := []byte("GET /v1/things HTTP/1.1\r\nHost: api.test\r\n\r\n")
	buf := make([]byte, 16<<10)
	for sent := time.Now(); times.n == 0 || sent.Before(until); {
		if _, err := c.Write(request); err != nil {
			return 0, err
		}
		for have := 0; ; {
			n, err := c.Read(buf[have:])
			if err != nil {
				return 0, err
			}
			have += n
			whole := answerLen(buf[:have])
			if whole == have {
				status, _ = strconv.Atoi(string(buf[9:12]))
				break
			}
			if whole > 0 && whole < have || have == len(buf) {
				return 0, io.ErrShortBuffer
			}
		}
		now := time.Now()
		times.add(now.Sub(sent))
		sent = now
	}
	return status, nil
}

// answerLen is how long an answer is as a whole, or zero if that cannot be told.
func answerLen(b []byte) int {
	head, _, found := bytes.Cut(b, []byte("\r\n\r\n"))
	if !found {
		return 0
	}
	_, length, found := bytes.Cut(head, []byte("\r\nContent-Length: "))
	if !found {
		return 0
	}
	length, _, _ = bytes.Cut(length, []byte("\r\n"))
	n, err := strconv.Atoi(string(length))
	if err != nil {
		return 0
	}
	return len(head) + 4 + n
}
