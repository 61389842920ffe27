package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/politehttp/polite/examples/sms/provider"
)

// child is the provider, another process of this program. It outlives the one
// that started it: a sender that comes for the same job finds its address in
// the job's directory.
type child struct {
	URL string `json:"url"`
	PID int    `json:"pid"`

	cmd *exec.Cmd // nil: an earlier sender started it
}

// beProvider is the argument that makes this program the provider; its
// directory, seed and idle time follow.
const beProvider = "--provider"

const (
	addressFile = "provider.json"
	logFile     = "provider.log"
	lockFile    = "lock"
	startWithin = 10 * time.Second
)

var errLocked = errors.New("another process works on this job")

// startProvider returns the provider of the job whose state is in dir: the one
// that still runs, or else a new one that goes on from there.
func startProvider(ctx context.Context, dir string, seed uint64, idle time.Duration) (*child, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if c := running(ctx, dir); c != nil {
		return c, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self, beProvider, dir, fmt.Sprint(seed), idle.String())
	cmd.Stderr = log
	detach(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the provider does not start: %w", err)
	}
	late := time.AfterFunc(startWithin, func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	late.Stop()
	if err != nil {
		cmd.Wait()
		if c := running(ctx, dir); c != nil { // it lost a race
			return c, nil
		}
		return nil, fmt.Errorf("the provider did not say where it is: %s", lastLine(dir))
	}
	return &child{URL: strings.TrimSpace(line), PID: cmd.Process.Pid, cmd: cmd}, nil
}

// running finds a provider that an earlier sender has left.
func running(ctx context.Context, dir string) *child {
	text, err := os.ReadFile(filepath.Join(dir, addressFile))
	if err != nil {
		return nil
	}
	c := &child{}
	if json.Unmarshal(text, c) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/job", nil)
	if err != nil {
		return nil
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	job, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil || string(job) != dir { // the port has gone to somebody else
		return nil
	}
	return c
}

// stop ends the provider, whoever started it, and returns when it has ended.
func (c *child) stop() {
	resp, err := http.Post(c.URL+"/stop", "", nil)
	if err == nil {
		resp.Body.Close()
	}
	if c.cmd != nil {
		late := time.AfterFunc(startWithin, func() { c.cmd.Process.Kill() })
		c.cmd.Wait()
		late.Stop()
		return
	}
	address := strings.TrimPrefix(c.URL, "http://")
	for end := time.Now().Add(startWithin); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		conn.Close()
	}
}

// provide is what the child does.
func provide(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New(beProvider + " wants a directory, a seed and a duration")
	}
	dir := args[0]
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	idle, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	held, err := lock(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	defer held.Close()
	p, err := provider.Open(dir, seed)
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := filepath.Join(dir, addressFile)
	me := child{URL: "http://" + l.Addr().String(), PID: os.Getpid()}
	text, err := json.Marshal(me)
	if err != nil {
		return err
	}
	if err := replace(address, text); err != nil {
		return err
	}
	defer os.Remove(address)
	fmt.Println(me.URL) // the parent waits for it
	return p.Serve(ctx, l, dir, idle)
}

// replace writes a file that others see whole or not at all.
func replace(path string, text []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func lastLine(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
