package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/politehttp/polite/observe"
)

// watch counts what happens, as the hooks report it.
type watch struct {
	mu    sync.Mutex
	now   counts
	waits map[observe.Reason]*wait
}

// counts are of rows but for tries and refused.
type counts struct {
	sent, rejected, lost int
	again                int    // rows that went round again
	repeated             int    // tries
	refused              int    // answers 429
	last                 string // why a row went round again
}

// wait is one reason to wait.
type wait struct {
	reason observe.Reason
	n      int
	total  time.Duration
	most   time.Duration
}

func newWatch() *watch { return &watch{waits: map[observe.Reason]*wait{}} }

func (w *watch) hooks() *observe.Hooks {
	return &observe.Hooks{
		Attempted: func(ctx context.Context, _ observe.Attempt) { deliveryOf(ctx).tries.Add(1) },
		Paced: func(_ context.Context, p observe.Paced) {
			w.waited(p.Reason, p.Wait)
		},
		Answered: func(_ context.Context, a observe.Answer) {
			if a.Status == 429 {
				w.count(func(c *counts) { c.refused++ })
			}
		},
		Retried: func(_ context.Context, r observe.Retry) {
			w.count(func(c *counts) { c.repeated++ })
			w.waited(r.Reason, r.Wait)
		},
	}
}

func (w *watch) sent()     { w.count(func(c *counts) { c.sent++ }) }
func (w *watch) rejected() { w.count(func(c *counts) { c.rejected++ }) }
func (w *watch) gaveUp()   { w.count(func(c *counts) { c.lost++ }) }
func (w *watch) failed(why string) {
	w.count(func(c *counts) { c.again++; c.last = why })
}

func (w *watch) count(change func(*counts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.now)
}

func (w *watch) waited(reason observe.Reason, d time.Duration) {
	if d <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.waits[reason]
	if one == nil {
		one = &wait{reason: reason}
		w.waits[reason] = one
	}
	one.n++
	one.total += d
	one.most = max(one.most, d)
}

func (w *watch) counts() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// reasons are the waits, the longest first.
func (w *watch) reasons() []wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []wait
	for _, one := range w.waits {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b wait) int { return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.reason, b.reason)) })
	return all
}
