package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/examples/sms/provider"
)

// rowsOf makes a row for each letter, which is its sender.
func rowsOf(senders string) (rows []row) {
	for i, s := range senders {
		rows = append(rows, row{Message: provider.Message{ID: fmt.Sprint(i + 1), From: string(s)}, N: i + 1})
	}
	return rows
}

func TestQueueTakesTurns(t *testing.T) {
	ctx := t.Context()
	q := newQueue(rowsOf("aaaaaabbbc"), 32)
	order := ""
	taken := map[string][]row{}
	for range 10 {
		r, ok := q.take(ctx)
		assert.True(t, ok)
		order += r.From
		taken[r.From] = append(taken[r.From], r)
	}
	assert.Equal(t, "abaabcaaba", order, "who has the most to do for each call under way")
	for _, rows := range taken {
		for i := 1; i < len(rows); i++ {
			assert.Less(t, rows[i-1].N, rows[i].N, "of one sender, in the order of the list")
		}
	}
}

func TestSlowSenderKeepsNoWorkerFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(rowsOf("sssssssssssssssssssabcdefgh"), 4)
		var mu sync.Mutex
		var quick []time.Duration
		begin := time.Now()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					r, ok := q.take(t.Context())
					if !ok {
						return
					}
					if r.From == "s" {
						time.Sleep(time.Hour)
					} else {
						time.Sleep(time.Second)
						mu.Lock()
						quick = append(quick, time.Since(begin))
						mu.Unlock()
					}
					q.done(r)
				}
			})
		}
		all.Wait()
		assert.Len(t, quick, 8)
		for _, at := range quick {
			assert.Less(t, at, time.Minute)
		}
	})
}

func TestFailedRowsGoRoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := rowsOf("abcab")
		q := newQueue(rows, 12)
		var mu sync.Mutex
		tries := map[int]int{}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for {
					r, ok := q.take(t.Context())
					if !ok {
						return
					}
					time.Sleep(time.Second)
					mu.Lock()
					tries[r.N]++
					last := tries[r.N] == r.N // row n fails n-1 times
					mu.Unlock()
					if last {
						q.done(r)
					} else {
						q.back(r)
					}
				}
			})
		}
		all.Wait() // a bubble in which all wait for ever fails
		assert.Equal(t, map[int]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 5}, tries)
	})
}

func TestQueueEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := newQueue(rowsOf("a"), 4)
		_, ok := q.take(ctx)
		assert.True(t, ok)
		go func() { time.Sleep(time.Second); cancel() }()
		_, ok = q.take(ctx) // the one row is taken, and may come back
		assert.False(t, ok)
	})
	_, ok := newQueue(nil, 4).take(t.Context())
	assert.False(t, ok)
}
