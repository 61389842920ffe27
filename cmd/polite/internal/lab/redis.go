package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/politehttp/polite/redisstore"
)

// embedded in place of an address asks for a Redis within this program.
const embedded = "embedded"

// patience is for a machine that does other things, too: what is slow here must
// not count as a Redis that is gone.
const patience = 10 * time.Second

// A redis is where a state is that instances share.
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
		return embed("miniredis, within this program, for there is no redis-server in PATH and no --redis")
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

// startRedis starts a redis-server that keeps nothing, and ends with ctx or stop.
func startRedis(ctx context.Context, path string) (*redis, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // to find a free port
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(address)
	dir, err := os.MkdirTemp("", "polite-lab")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	server := exec.CommandContext(ctx, path, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no")
	started := server.Start()
	stop := func() {
		cancel()
		if started == nil {
			_ = server.Wait()
		}
		_ = os.RemoveAll(dir)
	}
	if started != nil {
		stop()
		return nil, started
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

func (r *redis) option() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{r.address}, ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: patience,
	}
}

// client returns a connection of its own for a Store, and what closes it.
func (r *redis) client() (redisstore.Client, func(), error) {
	c, err := redisstore.Rueidis(r.option())
	if err != nil {
		return nil, nil, err
	}
	return c, func() { _ = c.(interface{ Close() error }).Close() }, nil
}

// stamped is a Client in virtual time: every script of redisstore takes the time,
// in microseconds, as its first argument.
type stamped struct {
	redisstore.Client
	now func() int64
}

func (c stamped) Eval(ctx context.Context, s *redisstore.Script, keys, args []string) ([]string, error) {
	args = append([]string{fmt.Sprint(c.now())}, args[1:]...)
	return c.Client.Eval(ctx, s, keys, args)
}
