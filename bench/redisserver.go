package bench

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A redisServer is a redis-server that keeps nothing.
type redisServer struct {
	address string
	stop    func()
	pid     int
}

// processorTime is how long the server has run on processors, in steps of 10 ms;
// 0 where there is no /proc.
func (s *redisServer) processorTime() time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, system := must(strconv.Atoi(fields[11])), must(strconv.Atoi(fields[12]))
	return time.Duration(user+system) * 10 * time.Millisecond
}

func startRedis() (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no redis-server in PATH")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // to find a free port
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(address)
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	server := exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no")
	stop := func() {
		if server.Process != nil {
			_ = server.Process.Kill()
			_ = server.Wait()
		}
		_ = os.RemoveAll(dir)
	}
	if err := server.Start(); err != nil {
		stop()
		return nil, err
	}
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return &redisServer{address, stop, server.Process.Pid}, nil
		}
	}
	stop()
	return nil, errors.New("the redis-server that was started does not answer")
}
