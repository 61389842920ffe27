package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/redisstore"
)

// Two processes send to one account: at one pace, and no more in a day than it
// has. Each makes what process does.
func ExampleStore_Reserve() {
	redis, err := miniredis.Run() // in place of a real one
	if err != nil {
		panic(err)
	}
	defer redis.Close()

	process := func() (*pacer.Pacer, *quota.Quota) {
		client, err := redisstore.Rueidis(rueidis.ClientOption{
			InitAddress: []string{redis.Addr()}, ForceSingleClient: true, ConnWriteTimeout: time.Second,
		})
		if err != nil {
			panic(err)
		}
		store := &redisstore.Store{Client: client, Timeout: time.Second, Processes: 2}
		return &pacer.Pacer{Rate: pacer.Per(20, time.Second), Burst: 1, Shared: store},
			&quota.Quota{Name: "calls", Limit: 6, Period: quota.Day, Store: store}
	}
	pacer1, quota1 := process()
	pacer2, quota2 := process()

	ctx, start := context.Background(), time.Now()
	send := func(p *pacer.Pacer, q *quota.Quota) {
		if _, err := q.Spend(ctx, "account", 1); err != nil {
			var spent *quota.SpentError
			fmt.Println("spent:", errors.As(err, &spent))
			return
		}
		release, err := p.Wait(ctx, "account", 1)
		if err != nil {
			panic(err)
		}
		release()
	}
	for range 3 {
		send(pacer1, quota1)
		send(pacer2, quota2)
	}
	fmt.Println("6 calls in 250 ms or more:", time.Since(start) >= 250*time.Millisecond)
	send(pacer1, quota1)
	// Output:
	// 6 calls in 250 ms or more: true
	// spent: true
}
