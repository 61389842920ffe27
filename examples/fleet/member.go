package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/redisstore"
)

// beMember is the argument that makes this program one process of the fleet. Its
// number, how many there are, the rate, Redis's address and the provider's URL
// follow.
const beMember = "--member"

const (
	startWithin = 20 * time.Second
	callers     = 4 // in each process
	header      = "Fleet-Process"
)

// member says that it is ready, sends from the next line of in on, and ends with
// in: when the process that started it wants it, or has ended.
func member(in io.Reader, args []string) error {
	if len(args) != 5 {
		return errors.New(beMember + " wants a number, how many there are, a rate, an address and a URL")
	}
	processes, err1 := strconv.ParseInt(args[1], 10, 64)
	rate, err2 := strconv.ParseInt(args[2], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	client, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{args[3]}, ForceSingleClient: true})
	if err != nil {
		return err
	}
	// This is all that a process needs to know of the others.
	store := &redisstore.Store{Client: client, Prefix: "fleet", Processes: processes}
	var once sync.Once
	store.OnDegraded = func(err error) {
		once.Do(func() { fmt.Fprintf(os.Stderr, "process %s keeps to its share for now: %v\n", args[0], err) })
	}
	transport := &polite.Transport{
		Base:    &http.Transport{MaxIdleConnsPerHost: callers},
		Account: func(*http.Request) string { return args[4] },
		// What a busy machine misses in 50 ms is made up for.
		Pacer: &pacer.Pacer{Rate: pacer.Per(rate, time.Second), Burst: max(rate/20, 1), Shared: store},
	}

	fmt.Println("ready")
	lines := bufio.NewReader(in)
	if _, err := lines.ReadString('\n'); err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		cancel()
	}()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				send(ctx, transport, args[4], args[0])
			}
		})
	}
	wg.Wait()
	transport.CloseIdleConnections()
	return nil
}

func send(ctx context.Context, transport http.RoundTripper, url, number string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	r.Header.Set(header, number)
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		select { // nothing is there: not at full speed
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	_ = resp.Body.Close()
}

// members are the processes of the fleet.
type members struct {
	all    []*process
	failed chan struct{} // closed when one has ended by itself
	once   sync.Once
}

type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  *bufio.Reader
	moans strings.Builder
	ended chan struct{}
	err   error // after ended
}

// startMembers starts all processes, and lets them send once all are ready.
func startMembers(ctx context.Context, o options, url string) (*members, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &members{failed: make(chan struct{})}
	for i := range o.processes {
		p := &process{ended: make(chan struct{})}
		p.cmd = exec.CommandContext(ctx, self, beMember, fmt.Sprint(i), fmt.Sprint(o.processes), fmt.Sprint(o.rate), o.redis, url)
		p.cmd.Stderr = &p.moans
		out, err1 := p.cmd.StdoutPipe()
		in, err2 := p.cmd.StdinPipe()
		if err := errors.Join(err1, err2); err != nil {
			_ = m.stop()
			return nil, err
		}
		if err := p.cmd.Start(); err != nil {
			_ = m.stop()
			return nil, fmt.Errorf("process %d does not start: %w", i+1, err)
		}
		p.in, p.said = in, bufio.NewReader(out)
		m.all = append(m.all, p)
	}
	late := time.AfterFunc(startWithin, func() {
		for _, p := range m.all {
			_ = p.cmd.Process.Kill()
		}
	})
	defer late.Stop()
	silent := 0
	for i, p := range m.all {
		if _, err := p.said.ReadString('\n'); err != nil && silent == 0 {
			silent = i + 1
		}
		go func() {
			_, _ = io.Copy(io.Discard, p.said)
			p.err = p.cmd.Wait()
			close(p.ended)
			m.once.Do(func() { close(m.failed) })
		}()
	}
	if silent > 0 {
		err := m.stop()
		return nil, fmt.Errorf("process %d did not say that it is ready: %w", silent, err)
	}
	for _, p := range m.all {
		_, _ = io.WriteString(p.in, "go\n")
	}
	return m, nil
}

// stop ends all processes, and returns when they have ended.
func (m *members) stop() (err error) {
	for _, p := range m.all {
		_ = p.in.Close()
	}
	late := time.AfterFunc(startWithin, func() {
		for _, p := range m.all {
			_ = p.cmd.Process.Kill()
		}
	})
	defer late.Stop()
	for i, p := range m.all {
		<-p.ended
		if p.err != nil && err == nil {
			err = fmt.Errorf("process %d: %w %s", i+1, p.err, strings.TrimSpace(p.moans.String()))
		}
	}
	return err
}
