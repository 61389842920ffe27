package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
)

// In a cluster users and their tenant are on one server, tenants are spread, and
// what everybody shares is Global.
func ExampleStore_cluster() {
	server := miniredis.NewMiniRedis() // in place of a cluster, so that this runs anywhere
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := redisstore.Rueidis(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, // not for a cluster
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.(io.Closer).Close()
	store := &redisstore.Store{
		Client:  client,
		Timeout: time.Second,
		Tag: func(c limiter.Charge) string { // keys are acme and acme/ada
			tenant, _, _ := strings.Cut(c.Key, "/")
			return tenant
		},
	}

	user, err1 := limiter.TokenBucket("user", limiter.Per(1, time.Minute), 2)
	tenant, err2 := limiter.TokenBucket("tenant", limiter.Per(10, time.Minute), 20)
	everybody, err3 := limiter.TokenBucket("everybody", limiter.Per(100, time.Minute), 200)
	if err1 != nil || err2 != nil || err3 != nil {
		log.Fatal(err1, err2, err3)
	}
	everybody.Global = true

	ctx := context.Background()
	for range 3 {
		d, err := store.Take(ctx, user.Charge("acme/ada", 1), tenant.Charge("acme", 1), everybody.Charge("", 1))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.By.Name(), d.Each[0].Remaining, d.Each[1].Remaining, d.Each[2].Remaining)
	}
	_, err = store.Take(ctx, user.Charge("acme/ada", 1), tenant.Charge("globex", 1))
	fmt.Println(err)
	// Output:
	// true user 1 19 199
	// true user 0 18 198
	// false user 0 18 198
	// redisstore: limits "user" and "tenant" in one decision, but Store.Tag says "acme" and "globex": only charges with one tag can be made all or none, so give them one, or set Global for a limit that everybody shares
}
