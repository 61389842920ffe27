package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
)

// The ways to keep a limit.
const (
	gated  = "gated"  // naive, and everybody reads before anybody writes
	naive  = "naive"  // reads the count, and writes it if there is room
	script = "script" // redisstore
)

// instanceVariable holds the address of Redis in the environment of a process
// that is one of the two.
const instanceVariable = "POLITE_RACE_REDIS"

// actAsInstance makes this process one of the two if it was started for that,
// and does not return then.
func actAsInstance() {
	address := os.Getenv(instanceVariable)
	if address == "" {
		return
	}
	if err := serve(address, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "race: instance:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a round for each line of in, "way key", and answers with how many
// requests were admitted. A gated round says "read" in between, and waits for a
// line.
func serve(address string, in io.Reader, out io.Writer) error {
	i, err := newInstance(address)
	if err != nil {
		return err
	}
	defer i.redis.Close()
	lines := bufio.NewScanner(in)
	fmt.Fprintln(out, "ready")
	for lines.Scan() {
		way, key, _ := strings.Cut(lines.Text(), " ")
		var ask func() (bool, error)
		switch way {
		case script:
			ask = func() (bool, error) { return i.take(key) }
		case naive:
			ask = func() (bool, error) { return i.checkThenAct("race:"+key, func() {}) }
		case gated:
			var reading sync.WaitGroup
			reading.Add(requests)
			open := make(chan struct{})
			ask = func() (bool, error) {
				return i.checkThenAct("race:"+key, func() { reading.Done(); <-open })
			}
			go func() {
				reading.Wait()
				fmt.Fprintln(out, "read")
				lines.Scan()
				close(open)
			}()
		default:
			return fmt.Errorf("there is no way %q", way)
		}
		admitted, err := atOnce(ask)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, admitted)
	}
	return lines.Err()
}

// atOnce makes all requests, and counts those that are admitted.
func atOnce(ask func() (bool, error)) (int, error) {
	var admitted atomic.Int64
	errs := make([]error, requests)
	start := make(chan struct{})
	var group sync.WaitGroup
	for n := range requests {
		group.Go(func() {
			<-start
			ok, err := ask()
			if ok {
				admitted.Add(1)
			}
			errs[n] = err
		})
	}
	close(start)
	group.Wait()
	return int(admitted.Load()), errors.Join(errs...)
}

type instance struct {
	redis rueidis.Client
	store *redisstore.Store
	limit *limiter.Limit
}

func newInstance(address string) (*instance, error) {
	option := rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true}
	redis, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	option.ConnWriteTimeout = patience
	client, err := redisstore.Rueidis(option)
	if err != nil {
		return nil, err
	}
	l, err := limiter.FixedWindow("requests", limit, time.Minute, limiter.ToFirst)
	if err != nil {
		return nil, err
	}
	return &instance{
		redis: redis,
		limit: l,
		// Here a machine that is busy must not count as a Redis that is gone.
		store: &redisstore.Store{Client: client, Prefix: "race", Timeout: patience},
	}, nil
}

const patience = 10 * time.Second

// take is the right way.
func (i *instance) take(key string) (bool, error) {
	d, err := i.store.Take(context.Background(), i.limit.Charge(key, 1))
	if err == nil {
		err = d.Degraded
	}
	return d.Allowed, err
}

// checkThenAct is the wrong way: between reading and writing others have read,
// too.
func (i *instance) checkThenAct(key string, between func()) (bool, error) {
	ctx := context.Background()
	count, err := i.redis.Do(ctx, i.redis.B().Get().Key(key).Build()).AsInt64()
	between()
	if err != nil && !rueidis.IsRedisNil(err) {
		return false, err
	}
	if count >= limit {
		return false, nil
	}
	for _, answer := range i.redis.DoMulti(ctx,
		i.redis.B().Incr().Key(key).Build(),
		i.redis.B().Expire().Key(key).Seconds(60).Nx().Build(),
	) {
		if err := answer.Error(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// number reads an answer of serve.
func number(line string) (int, error) {
	n, err := strconv.Atoi(line)
	if err != nil {
		return 0, fmt.Errorf("an instance answered %q", line)
	}
	return n, nil
}
