// Package goredis lets a redisstore.Store reach Redis through a go-redis client
// that the program has already.
//
//	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
//	c, err := goredis.New(client)
//	if err != nil {
//		return err
//	}
//	store := &redisstore.Store{Client: c}
//
// A program without one takes redisstore.Rueidis, which sends together what is
// under way at one moment and so does twice as much.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/internal/redact"
)

// maxRead is how long a call may stay behind its deadline.
const maxRead = 500 * time.Millisecond

// New returns a Client over c, which stays the program's: it closes it.
//
// A script is sent once, whatever MaxRetries says: the commands forbid their
// repetition, which go-redis obeys in every kind of client. It still follows
// MOVED and ASK, for then nothing ran.
//
// An error names the setting by which calls to a Redis that hangs would pile
// up: ContextTimeoutEnabled must be true, or ReadTimeout be at most 500 ms. What
// a client of another type is set to cannot be seen, and is for its owner to
// know. A *redis.Ring is refused.
//
// Two more settings say how soon all is well again after Redis was away:
//
//   - DialTimeout, by default 5 s, is how long go-redis goes on with a connection
//     that nobody waits for any more. 500 ms is plenty.
//   - When as many dials have failed as PoolSize says, go-redis tries once a
//     second only, so that a small pool may find Redis a second late.
//
// PoolSize, by default ten for each processor, is also how many decisions are under
// way at once. The others wait, and who still does after Store.Timeout gets
// redisstore.ErrBusy, which the limits' OnFailure answers, and which is not taken
// for a Redis that is away. In a cluster, and where the program uses the pool for
// something else besides, the two cannot be told apart: there let the pool be larger
// than the decisions of one moment.
//
// A new connection takes two round trips more, which have to fit into Store.Timeout:
// for a Redis that is 10 ms away set MinIdleConns, or a longer Timeout.
//
// While Redis is away go-redis itself writes "failed to dial" to stderr:
// redis.SetLogger sends that elsewhere.
func New(c redis.UniversalClient) (redisstore.Client, error) {
	out := &client{redis: c}
	var obeys bool
	var read time.Duration
	switch c := c.(type) {
	case nil:
		return nil, errors.New("redisstore: the go-redis client is nil")
	case *redis.Client:
		if c == nil {
			return nil, errors.New("redisstore: the go-redis client is nil")
		}
		o := c.Options()
		obeys, read = o.ContextTimeoutEnabled, o.ReadTimeout
		if out.atOnce = o.PoolSize; o.MaxActiveConns > 0 {
			out.atOnce = min(o.PoolSize, o.MaxActiveConns)
		}
		out.secrets = func() []string { return []string{o.Password} }
	case *redis.ClusterClient:
		if c == nil {
			return nil, errors.New("redisstore: the go-redis client is nil")
		}
		o := c.Options()
		obeys, read = o.ContextTimeoutEnabled, o.ReadTimeout
		out.secrets = func() []string { return []string{o.Password} }
		out.cluster = true
	case *redis.Ring:
		return nil, errors.New("redisstore: a *redis.Ring is not allowed: while a shard is down it keeps the keys elsewhere, where every limit starts anew")
	default:
		return out, nil
	}
	if !obeys && (read <= 0 || read > maxRead) {
		return nil, fmt.Errorf("redisstore: ContextTimeoutEnabled is false and ReadTimeout is %v: the one must be true or the other at most %v, or calls to a Redis that hangs pile up", read, maxRead)
	}
	return out, nil
}

type client struct {
	redis   redis.UniversalClient
	secrets func() []string // a function, so that no text of a client shows them; may be nil
	cluster bool
	atOnce  int
}

// A once is a command that go-redis does not send twice.
type once struct{ *redis.Cmd }

// NoRetry is asked by go-redis before it repeats a command.
func (once) NoRetry() bool { return true }

// Clustered reports whether Redis is a cluster.
func (c *client) Clustered() bool { return c.cluster }

// AtOnce is how many connections there may be; 0: not known.
func (c *client) AtOnce() int { return c.atOnce }

// Eval implements redisstore.Client.
func (c *client) Eval(ctx context.Context, s *redisstore.Script, keys, args []string) ([]string, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, "evalsha", s.Hash(), len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	for _, arg := range args {
		words = append(words, arg)
	}
	cmd := once{redis.NewCmd(ctx, words...)}
	err := c.redis.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		words[0], words[1] = "eval", s.Source()
		cmd = once{redis.NewCmd(ctx, words...)}
		err = c.redis.Process(ctx, cmd)
	}
	switch {
	case errors.Is(err, redis.Nil):
		return nil, errReply
	case err != nil:
		return nil, c.clean(err)
	}
	return flat(cmd.Val())
}

// clean turns an answer of Redis into a ReplyError, and takes passwords out of it
// and of everything else.
func (c *client) clean(err error) error {
	var secrets []string
	if c.secrets != nil {
		secrets = c.secrets()
	}
	var answer redis.Error
	if errors.As(err, &answer) {
		return &redisstore.ReplyError{Text: redact.Text(answer.Error(), secrets...)}
	}
	return redact.Error(err, secrets...)
}

// errReply is what a script must not answer.
var errReply = &redisstore.ReplyError{Text: "the reply is neither text, nor an integer, nor a flat array of those"}

// flat returns text, an integer, or an array of those, as text.
func flat(value any) ([]string, error) {
	elements, ok := value.([]any)
	if !ok {
		elements = []any{value}
	}
	reply := make([]string, len(elements))
	for i, element := range elements {
		switch element := element.(type) {
		case string:
			reply[i] = element
		case int64:
			reply[i] = strconv.FormatInt(element, 10)
		default:
			return nil, errReply
		}
	}
	return reply, nil
}
