package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/goredis"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

var echo = redisstore.NewScript(`return {KEYS[1], ARGV[1], 7}`)

// each runs a test with every client.
func each(t *testing.T, test func(t *testing.T, client func(t testing.TB, addr string) redisstore.Client)) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) { test(t, client) })
	}
}

func TestClientReplies(t *testing.T) {
	each(t, func(t *testing.T, client func(testing.TB, string) redisstore.Client) {
		for kind, addr := range map[string]string{"redis": redistest.Start(t).Addr, "miniredis": redistest.Mini(t).Addr()} {
			c := client(t, addr)
			eval := func(source string) ([]string, error) {
				return c.Eval(t.Context(), redisstore.NewScript(source), []string{"k"}, []string{"a"})
			}
			for source, want := range map[string][]string{
				`return {KEYS[1], ARGV[1], 7}`:          {"k", "a", "7"},
				`return 'text'`:                         {"text"},
				`return ''`:                             {""},
				`return -3`:                             {"-3"},
				`return {}`:                             {},
				`return redis.call('SET', KEYS[1], 1)`:  {"OK"},
				`return redis.call('PTTL', 'nothing')`:  {"-2"},
				`return {'9007199254740993', '1 2\n3'}`: {"9007199254740993", "1 2\n3"},
			} {
				reply, err := eval(source)
				require.NoError(t, err, "%s: %s", kind, source)
				assert.Equal(t, want, reply, "%s: %s", kind, source)
			}
			for _, source := range []string{`return false`, `return nil`, `return {1, {2}}`, `return {false, 1}`, `this is not Lua`, `return redis.call('HGET', KEYS[1], 'f')`} {
				_, err := eval(source)
				var reply *redisstore.ReplyError
				require.ErrorAs(t, err, &reply, "%s: %s", kind, source)
				assert.NotEmpty(t, reply.Text)
			}
		}
	})
}

func TestReplyErrorCode(t *testing.T) {
	for text, want := range map[string]string{
		"WRONGTYPE Operation against a key": "WRONGTYPE",
		"OOM":                               "OOM",
		"":                                  "",
		"ERR Error running script (call to f_0a): @user_script:1: -OOM command not allowed": "OOM",
	} {
		assert.Equal(t, want, (&redisstore.ReplyError{Text: text}).Code())
	}
}

func TestScript(t *testing.T) {
	s := redisstore.NewScript("return 1")
	assert.Equal(t, "return 1", s.Source())
	assert.Equal(t, redis.NewScript("return 1").Hash(), s.Hash())
}

// A script that Redis does not know costs one more round trip, each time that
// Redis forgot it, and no call fails for it.
func TestClientKnowsNoScript(t *testing.T) {
	each(t, func(t *testing.T, client func(testing.TB, string) redisstore.Client) {
		server := redistest.Start(t)
		c := client(t, server.Addr)
		store := &redisstore.Store{Client: c, Timeout: 5 * time.Second}
		for range 3 {
			server.Do("SCRIPT", "FLUSH")
			server.ResetCalls()
			for range 10 {
				_, err := store.Run(t.Context(), echo, []string{"k"}, []string{"a"})
				require.NoError(t, err)
			}
			calls := server.Calls()
			assert.Equal(t, 10, calls["evalsha"])
			assert.Equal(t, 1, calls["eval"])
			assert.Zero(t, calls["script|load"])
		}
		// Many at once share one pipeline.
		stop := every(time.Millisecond, func() { server.Do("SCRIPT", "FLUSH") })
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				for range 20 {
					reply, err := store.Run(t.Context(), echo, []string{"k"}, []string{"a"})
					if assert.NoError(t, err) {
						assert.Equal(t, []string{"k", "a", "7"}, reply)
					}
				}
			})
		}
		group.Wait()
		stop()
	})
}

// To make a client, and a store, sends nothing: it does not matter which is
// there first.
func TestClientStartsBeforeRedis(t *testing.T) {
	each(t, func(t *testing.T, client func(testing.TB, string) redisstore.Client) {
		server := redistest.Start(t)
		server.Kill()
		store := &redisstore.Store{Client: client(t, server.Addr)}
		ask := func() error {
			_, err := store.Run(t.Context(), echo, []string{"k"}, []string{"a"})
			return err
		}
		for range 20 {
			start := time.Now()
			require.Error(t, ask())
			if !redisstore.Raced {
				assert.Less(t, time.Since(start), deadline+250*time.Millisecond)
			}
		}
		server.Restart()
		back := time.Now()
		for ask() != nil && time.Since(back) < 10*time.Second {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(back); !redisstore.Raced {
			assert.LessOrEqual(t, took, time.Second)
		}
	})
}

// A server that accepts connections and then says nothing, at the very first.
func TestClientFirstMeetsSilence(t *testing.T) {
	each(t, func(t *testing.T, client func(testing.TB, string) redisstore.Client) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		store := &redisstore.Store{Client: client(t, l.Addr().String())}
		var group sync.WaitGroup
		for range 500 {
			group.Go(func() {
				start := time.Now()
				_, err := store.Run(t.Context(), echo, []string{"k"}, []string{"a"})
				assert.Error(t, err)
				if !redisstore.Raced {
					assert.Less(t, time.Since(start), deadline+250*time.Millisecond)
				}
			})
		}
		group.Wait()
	})
}

func TestRueidisSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		c, err := redisstore.Rueidis(rueidis.ClientOption{
			InitAddress:       []string{"127.0.0.1:1"},
			ForceSingleClient: true,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
				dials.Add(1)
				time.Sleep(20 * time.Millisecond)
				return nil, errors.New("no route")
			},
		})
		require.NoError(t, err)
		synctest.Wait()
		assert.Zero(t, dials.Load())

		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				_, err := c.Eval(t.Context(), echo, []string{"k"}, []string{"a"})
				assert.ErrorContains(t, err, "no route")
			})
		}
		group.Wait()
		assert.EqualValues(t, 1, dials.Load(), "callers at one moment share an attempt")

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = c.Eval(ctx, echo, []string{"k"}, []string{"a"})
		assert.ErrorIs(t, err, context.DeadlineExceeded, "nobody waits for an attempt longer than its context")
		time.Sleep(time.Second) // the attempt ends
	})
}

func TestRueidisOptions(t *testing.T) {
	ok := func() rueidis.ClientOption { return rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}} }
	for want, change := range map[string]func(o *rueidis.ClientOption){
		"redisstore: ClientOption.InitAddress is empty: at least one address is needed": func(o *rueidis.ClientOption) { o.InitAddress = nil },
		"redisstore: ClientOption.InitAddress[0] is not of the form host:port":          func(o *rueidis.ClientOption) { o.InitAddress[0] = "redis://:hunter2@127.0.0.1:6379" },
		"redisstore: ClientOption.InitAddress[1] is not of the form host:port":          func(o *rueidis.ClientOption) { o.InitAddress = append(o.InitAddress, "user:hunter2@host:1") },
		"redisstore: ClientOption.ConnLifetime is 1m0s: only 0 is allowed, as rueidis sends again what a connection had in flight when its life ended": func(o *rueidis.ClientOption) {
			o.ConnLifetime = time.Minute
		},
		"redisstore: ClientOption.SendToReplicas is set: only nil is allowed, as every script writes": func(o *rueidis.ClientOption) {
			o.SendToReplicas = func(rueidis.Completed) bool { return true }
		},
		"redisstore: ClientOption.Standalone.ReplicaAddress is set: only none is allowed, as every script writes": func(o *rueidis.ClientOption) {
			o.Standalone.ReplicaAddress = []string{"127.0.0.1:6380"}
		},
		"redisstore: ClientOption.ReplicaOnly is set: only false is allowed, as every script writes": func(o *rueidis.ClientOption) { o.ReplicaOnly = true },
		"redisstore: ClientOption.PipelineMultiplex is 9: at most 8 is allowed":                      func(o *rueidis.ClientOption) { o.PipelineMultiplex = 9 },
	} {
		o := ok()
		change(&o)
		_, err := redisstore.Rueidis(o)
		assert.EqualError(t, err, want)
	}
	_, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{"[::1]:6379", "redis.internal:6379"}})
	assert.NoError(t, err)
	_, err = redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{"/run/redis.sock"}})
	assert.Error(t, err, "nothing dials it")
}

func TestRueidisUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	redistest.Start(t, "--unixsocket", socket)
	o, err := rueidis.ParseURL("unix://" + socket)
	require.NoError(t, err)
	c, err := redisstore.Rueidis(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.(io.Closer).Close() })
	reply, err := c.Eval(t.Context(), echo, []string{"k"}, []string{"a"})
	require.NoError(t, err)
	assert.Equal(t, []string{"k", "a", "7"}, reply)
}

func TestRueidisClose(t *testing.T) {
	server := redistest.Start(t)
	for _, used := range []bool{false, true} {
		c, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{server.Addr}})
		require.NoError(t, err)
		if used {
			_, err = c.Eval(t.Context(), echo, []string{"k"}, []string{"a"})
			require.NoError(t, err)
		}
		require.NoError(t, c.(io.Closer).Close())
		_, err = c.Eval(t.Context(), echo, []string{"k"}, []string{"a"})
		require.ErrorIs(t, err, rueidis.ErrClosing)
		require.NoError(t, c.(io.Closer).Close())
	}
}

// No error shows the password, whoever makes it.
func TestPasswordsStayHidden(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "hunter2")
	proxy := redistest.NewProxy(t, server.Addr)
	make := map[string]func(password string) redisstore.Client{
		"rueidis": func(password string) redisstore.Client {
			c, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{proxy.Addr}, Password: password})
			require.NoError(t, err)
			return c
		},
		"rueidis that dials by itself": func(password string) redisstore.Client {
			c, err := redisstore.Rueidis(rueidis.ClientOption{
				InitAddress: []string{proxy.Addr}, Password: password,
				DialCtxFn: func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return nil, errors.New("cannot reach redis://:" + password + "@" + addr)
				},
			})
			require.NoError(t, err)
			return c
		},
		"goredis": func(password string) redisstore.Client {
			c, err := goredis.New(redis.NewClient(&redis.Options{Addr: proxy.Addr, Password: password, ContextTimeoutEnabled: true}))
			require.NoError(t, err)
			return c
		},
		"goredis with a wrong address": func(password string) redisstore.Client {
			c, err := goredis.New(redis.NewClient(&redis.Options{Addr: "redis://:" + password + "@" + proxy.Addr, Password: password, ContextTimeoutEnabled: true}))
			require.NoError(t, err)
			return c
		},
	}
	for name, client := range make {
		t.Run(name, func(t *testing.T) {
			for _, f := range []redistest.Fault{redistest.None, redistest.HoldReplies, redistest.ResetReply, redistest.Refuse} {
				proxy.Set(f)
				for _, password := range []string{"hunter2", "hunter3"} {
					store := &redisstore.Store{Client: client(password)}
					_, err := store.Run(t.Context(), echo, []string{"k"}, []string{"a"})
					if err == nil {
						assert.Equal(t, "hunter2", password)
						assert.Equal(t, redistest.None, f)
						continue
					}
					assert.NotContains(t, err.Error(), "hunter")
					for inner := err; inner != nil; inner = errors.Unwrap(inner) {
						assert.NotContains(t, inner.Error(), "hunter")
					}
				}
			}
			proxy.Set(redistest.None)
		})
	}
}

// One value of another type under a key is that key's affair.
func TestPoisonedKey(t *testing.T) {
	each(t, func(t *testing.T, client func(testing.TB, string) redisstore.Client) {
		server := redistest.Start(t)
		server.Do("SET", "charges", "a string")
		store := &redisstore.Store{Client: client(t, server.Addr), Timeout: 5 * time.Second}
		for i := range 100 {
			_, err := store.Run(t.Context(), chargeScript, []string{"charges"}, []string{strconv.Itoa(i)})
			var reply *redisstore.ReplyError
			require.ErrorAs(t, err, &reply)
			require.Equal(t, "WRONGTYPE", reply.Code())
		}
		_, err := store.Run(t.Context(), chargeScript, []string{"well"}, []string{"1"})
		require.NoError(t, err)
	})
}
