// Package redistest starts what the tests of redisstore need: real Redis
// servers on free ports of this machine, clusters and replicas of them, a proxy
// that misbehaves, and miniredis.
//
// Nothing is stored on disk beyond the test, and everything ends with it. A test
// that needs a real Redis is skipped where there is no redis-server, but fails
// where CI=true is set.
package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// binary returns the path of redis-server.
func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no redis-server in PATH, and with CI=true the tests against a real Redis must run")
	}
	t.Skip("SKIPPED: there is no redis-server in PATH, so nothing is tested against a real Redis here")
	return ""
}

// go-redis logs each dial that fails. Here most are meant to.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// A Server is one redis-server. Its methods fail the test when they cannot do
// what they say; they are for the goroutine of the test.
type Server struct {
	Addr     string // 127.0.0.1 and a port
	Password string // what it was started with, else empty

	t     testing.TB
	args  []string
	admin *redis.Client

	mu     sync.Mutex
	pid    int
	keeper *exec.Cmd
	hold   io.Closer
}

// Start starts a redis-server on a free port, without persistence. args are
// further command line arguments, such as "--maxmemory", "2mb".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	binary(t)
	for range 5 { // somebody else may take the port in between
		s := prepare(t, args...)
		if err := s.start(); err == nil {
			t.Cleanup(func() { s.Kill(); _ = s.admin.Close() })
			return s
		} else if !strings.Contains(err.Error(), "in use") { // what Redis says, too
			t.Fatalf("redis-server: %v", err)
		}
		_ = s.admin.Close()
	}
	t.Fatal("redis-server: five free ports were taken before it could listen")
	return nil
}

func prepare(t testing.TB, args ...string) *Server {
	t.Helper()
	port, bus := freePort(t), freePort(t)
	s := &Server{t: t, Addr: "127.0.0.1:" + port}
	for i, arg := range args {
		if arg == "--requirepass" && i+1 < len(args) {
			s.Password = args[i+1]
		}
	}
	s.args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "no",
		"--cluster-port", bus, "--daemonize", "no", "--loglevel", "warning", "--repl-diskless-sync-delay", "0",
	}, args...)
	// After as many failed dials as the pool has places, go-redis tries only
	// once a second, so there are more places than a test can fail at.
	s.admin = redis.NewClient(&redis.Options{
		Addr: s.Addr, Password: s.Password, PoolSize: 10_000, MaxRetries: -1, DisableIdentity: true,
		DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	return s
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// keep runs a server that first tells its process id, and kills it when its own
// input ends, so that no server outlives a test that crashed or was stopped.
const keep = `trap '' HUP INT PIPE TERM; sh -c 'echo $$; exec "$@"' sh "$@" <&- & read end; kill -9 $!; wait $! 2>&-`

func (s *Server) start() error {
	keeper := exec.Command("sh", append([]string{"-c", keep, "sh", "redis-server"}, s.args...)...)
	hold, err := keeper.StdinPipe()
	if err != nil {
		return err
	}
	out, err := keeper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	pid, notNumber := strconv.Atoi(strings.TrimSpace(first))
	s.mu.Lock()
	s.pid, s.keeper, s.hold = pid, keeper, hold
	s.mu.Unlock()
	if err = errors.Join(err, notNumber); err != nil {
		s.Kill()
		return err
	}
	var log logBuffer
	go func() { _, _ = io.Copy(&log, lines) }() // ends with the server
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := s.ping()
		if err == nil {
			if s.info("server", "process_id") == strconv.Itoa(pid) {
				return nil
			}
			s.Kill()
			return errors.New("the port is in use by another server")
		}
		if text := log.String(); strings.Contains(text, "in use") || time.Now().After(deadline) {
			s.Kill()
			return fmt.Errorf("it does not answer: %w\n%s", err, text)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (s *Server) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	return s.admin.Ping(ctx).Err()
}

// Kill ends the server at once, as a crash does, if it runs.
func (s *Server) Kill() {
	s.mu.Lock()
	keeper, hold := s.keeper, s.hold
	s.keeper, s.hold, s.pid = nil, nil, 0
	s.mu.Unlock()
	if keeper != nil {
		_ = hold.Close()
		_ = keeper.Wait()
	}
}

// Restart starts the server again, empty, on the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.t.Fatalf("redis-server again on %s: %v", s.Addr, err)
	}
}

// Pause stops the process (SIGSTOP): connections stay open and nothing is
// answered, until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on (SIGCONT).
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid == 0 {
		s.t.Fatal("redis-server: it does not run")
	}
	if err := syscall.Kill(s.pid, sig); err != nil {
		s.t.Fatalf("redis-server: %v: %v", sig, err)
	}
}

type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
