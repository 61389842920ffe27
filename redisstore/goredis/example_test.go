package goredis_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/politehttp/polite/redisstore"
	"github.com/politehttp/polite/redisstore/goredis"
)

// The program's own client, with the one setting that is needed.
func ExampleNew() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()

	own := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer func() { _ = own.Close() }()
	client, err := goredis.New(own)
	if err != nil {
		panic(err)
	}
	double := redisstore.NewScript(`return ARGV[1] * 2`)
	reply, err := client.Eval(context.Background(), double, nil, []string{"21"})
	fmt.Println(reply, err)
	// Output: [42] <nil>
}
