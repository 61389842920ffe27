package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/pacer"
)

// A provider that takes 100 calls in any 10 s, used in bursts of up to 40.
func Example() {
	rate, err := pacer.Within(100, 10*time.Second, 40)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rate.Count, "per", rate.Per)

	p := &pacer.Pacer{Rate: rate, Burst: 40}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	for n := 1; ; n++ {
		release, err := p.Wait(ctx, "account", 1)
		var late *pacer.WaitError
		if errors.As(err, &late) { // refused at once: nothing was taken
			fmt.Println(n-1, "left; the next would wait over 100ms:", late.Wait > 100*time.Millisecond)
			return
		}
		release()
	}
	// Output:
	// 6 per 1s
	// 40 left; the next would wait over 100ms: true
}

// An account has one limit, each sender another, and a message counts against
// both.
func ExampleWaitAll() {
	account := &pacer.Pacer{Rate: pacer.Per(1000, time.Second)}
	sender := &pacer.Pacer{Rate: pacer.Per(100, time.Second), Burst: 1}
	var wg sync.WaitGroup
	start := time.Now()
	for _, from := range []string{"+4670", "+4670", "+4671", "+4671"} {
		wg.Go(func() {
			release, err := pacer.WaitAll(context.Background(),
				pacer.Claim{Pacer: account, Key: "acme", N: 1},
				pacer.Claim{Pacer: sender, Key: from, N: 1})
			if err != nil {
				fmt.Println(err)
				return
			}
			defer release()
		})
	}
	wg.Wait()
	fmt.Println("sent at the pace of the senders:", time.Since(start) >= 10*time.Millisecond)
	// Output: sent at the pace of the senders: true
}

// A pacer that is told nothing obeys what the provider says.
func ExamplePacer_Observe() {
	p := new(pacer.Pacer)
	p.Observe("api", headerparse.Signal{Status: 429, Told: true, Wait: time.Minute}, time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := p.Wait(ctx, "api", 1)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}
