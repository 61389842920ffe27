package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// embedded in place of an address asks for a Redis within this program.
const embedded = "embedded"

// A redis is where the limit is kept.
type redis struct {
	address string
	what    string // for people
	stop    func()
}

// findRedis returns the Redis at an address; without one, a redis-server that it
// starts, or else one within this program.
func findRedis(ctx context.Context, address string) (*redis, error) {
	switch address {
	case embedded:
		return embed("miniredis, within this program")
	case "":
		if path, err := exec.LookPath("redis-server"); err == nil {
			return startRedis(ctx, path)
		}
		return embed("miniredis, within this program, for there is no redis-server and no --redis")
	}
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, fmt.Errorf("--redis %s: %w", address, err)
	}
	_ = conn.Close()
	return &redis{address, "at " + address, func() {}}, nil
}

func embed(what string) (*redis, error) {
	mini, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	return &redis{mini.Addr(), what, mini.Close}, nil
}

// startRedis starts a redis-server that keeps nothing.
func startRedis(ctx context.Context, path string) (*redis, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // to find a free port
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(address)
	dir, err := os.MkdirTemp("", "race")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	server := exec.CommandContext(ctx, path, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no")
	stop := func() {
		cancel()
		_ = server.Wait()
		_ = os.RemoveAll(dir)
	}
	if err := server.Start(); err != nil {
		cancel()
		_ = os.RemoveAll(dir)
		return nil, err
	}
	for until := time.Now().Add(patience); time.Now().Before(until) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return &redis{address, "a redis-server that was started for this", stop}, nil
		}
	}
	stop()
	return nil, errors.New("the redis-server that was started does not answer; give the address of one with --redis, or --redis embedded")
}
