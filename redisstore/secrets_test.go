package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/goredis"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// A server, or a proxy, that does not know AUTH quotes the password in its
// answer, wherever the client had it from.
func TestPasswordsAreNotQuoted(t *testing.T) {
	const password = "hunter2"
	addr := redistest.Start(t, "--rename-command", "AUTH", "", "--rename-command", "HELLO", "").Addr
	byRueidis := func(o rueidis.ClientOption) redisstore.Client {
		o.InitAddress = []string{addr}
		c, err := redisstore.Rueidis(o)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.(io.Closer).Close() })
		return c
	}
	byGoRedis := func(o *redis.Options) redisstore.Client {
		o.Addr, o.ContextTimeoutEnabled = addr, true
		r := redis.NewClient(o)
		t.Cleanup(func() { _ = r.Close() })
		c, err := goredis.New(r)
		require.NoError(t, err)
		return c
	}
	for name, c := range map[string]redisstore.Client{
		"rueidis":           byRueidis(rueidis.ClientOption{Password: password}),
		"rueidis, a user":   byRueidis(rueidis.ClientOption{Password: password, Username: "bob"}),
		"rueidis, protocol": byRueidis(rueidis.ClientOption{Password: password, AlwaysRESP2: true}),
		"rueidis, a function": byRueidis(rueidis.ClientOption{AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: "bob", Password: password}, nil
		}}),
		"goredis":             byGoRedis(&redis.Options{Password: password}),
		"goredis, a user":     byGoRedis(&redis.Options{Password: password, Username: "bob"}),
		"goredis, a function": byGoRedis(&redis.Options{CredentialsProvider: func() (string, string) { return "bob", password }}),
		"goredis, on connect": byGoRedis(&redis.Options{OnConnect: func(ctx context.Context, c *redis.Conn) error { return c.Auth(ctx, password).Err() }}),
		"somebody else's":     quoting{},
	} {
		t.Run(name, func(t *testing.T) {
			var told error
			store := &redisstore.Store{Client: c, Timeout: 5 * time.Second, OnDegraded: func(err error) { told = err }}
			l, err := limiter.FixedWindow("w", 5, time.Minute, limiter.ToFirst)
			require.NoError(t, err)
			d, err := store.Take(t.Context(), l.Charge("", 1))
			require.NoError(t, err)
			require.ErrorContains(t, d.Degraded, "unknown command")
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", d.Degraded, d.Degraded, d.Degraded), password)
			assert.Equal(t, d.Degraded, told)
			if name != "somebody else's" {
				var reply *redisstore.ReplyError
				require.ErrorAs(t, d.Degraded, &reply)
				assert.NotContains(t, reply.Text, password)
			}
			for _, verb := range strings.Fields("%v %+v %#v %s %q %d %x") {
				assert.NotContains(t, fmt.Sprintf(verb, store.Client), password, "a log of the client")
				assert.NotContains(t, fmt.Sprintf(verb, &redisstore.Store{Client: c}), password, "a log of a store")
			}
		})
	}
}

// A quoting Client passes on what a server has answered.
type quoting struct{}

func (quoting) Eval(context.Context, *redisstore.Script, []string, []string) ([]string, error) {
	return nil, fmt.Errorf("connect: unknown command 'AUTH', with args beginning with: 'hunter2'")
}
