package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
)

// Two processes share a limit for each user and one for each tenant.
func Example() {
	redis, err := miniredis.Run() // or a real one
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()

	process := func() *redisstore.Store {
		client, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{redis.Addr()}})
		if err != nil {
			log.Fatal(err)
		}
		return &redisstore.Store{Client: client, Timeout: 5 * time.Second}
	}
	user, err := limiter.FixedWindow("user", 3, time.Hour, limiter.ToFirst)
	if err != nil {
		log.Fatal(err)
	}
	tenant, err := limiter.FixedWindow("tenant", 4, time.Hour, limiter.ToFirst)
	if err != nil {
		log.Fatal(err)
	}

	one, other := process(), process()
	for i, call := range []struct {
		store *redisstore.Store
		user  string
	}{{one, "ann"}, {other, "ann"}, {one, "ann"}, {other, "ann"}, {one, "bob"}, {other, "bob"}} {
		d, err := call.store.Take(context.Background(), user.Charge(call.user, 1), tenant.Charge("acme", 1))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(i+1, call.user, d.Allowed, d.By.Name(), d.Remaining)
	}
	// Output:
	// 1 ann true user 2
	// 2 ann true user 1
	// 3 ann true user 0
	// 4 ann false user 0
	// 5 bob true tenant 0
	// 6 bob false tenant 0
}
