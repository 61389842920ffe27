package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
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

// One limit, one pace and one quota for forty processes.
func Example_forty() {
	rules := []limiter.Rule{{Key: limiter.ByAddress(nil), Limits: []*limiter.Limit{perAddress()}}}

	client, err := redisstore.Rueidis(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}) // or goredis.New
	if err != nil {
		log.Fatal(err)
	}
	store := &redisstore.Store{Client: client, Processes: 40, OnDegraded: func(err error) { log.Print(err) }}
	guard := &limiter.Guard{Store: store, Rules: rules} // called: Redis knows a limit by its name
	t := polite.NewTransport(nil)                       // calling
	t.Pacer = &pacer.Pacer{Rate: pacer.Per(400, time.Second), Burst: 100, Shared: store}
	t.Quotas = []*quota.Quota{{Name: "calls", Limit: 1_000_000, Period: quota.Month, Store: store}}
	err = errors.Join(guard.Check(), t.Check()) // ask the store, too, whether it can keep all that

	fmt.Println(err)
	// Output: <nil>
}

func perAddress() *limiter.Limit {
	l, err := limiter.TokenBucket("per-address", limiter.Per(100, time.Minute), 100)
	if err != nil {
		log.Fatal(err)
	}
	return l
}
