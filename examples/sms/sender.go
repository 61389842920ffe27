package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/idempotency"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/retry"
)

// The two paces, a little below what refuses: the provider lets an account send
// 20 at once and a number 2, but what leaves here evenly may arrive in a bunch.
var (
	accountRate = pacer.Per(10, time.Second)
	senderRate  = pacer.Per(1, time.Second)
)

const (
	accountBurst = 18
	senderBurst  = 1

	refill = accountBurst * time.Second / 10 // how long it takes to earn a burst

	account = "account" // the one that all rows are sent for

	callWithin = time.Minute     // a row whose call takes longer goes round again
	pause      = time.Second     // before a row goes round again
	patience   = 2 * time.Minute // without any row done
)

// politely is the client of this example: what one has to know of the provider,
// said once.
func politely(base http.RoundTripper, store quota.Store, perDay int64, known bool, w *watch) *polite.Transport {
	t := polite.NewTransport(base)
	t.Account = func(*http.Request) string { return account }
	t.Keys = &idempotency.Keys{} // the provider knows keys, so a repeat is safe
	t.Retry = &retry.Policy{AttemptTimeout: 10 * time.Second, OutlastOpen: true}
	if known {
		t.Pacer = nil // nothing to learn: its limits are those of the lanes, and its 503 says nothing about pace
	}
	t.Lanes = []polite.Lane{
		{Pacer: &pacer.Pacer{Rate: accountRate, Burst: accountBurst}, Limits: []string{"account"}},
		{Pacer: &pacer.Pacer{Rate: senderRate, Burst: senderBurst}, Limits: []string{"sender"}, Key: senderOf},
	}
	t.Quotas = []*quota.Quota{{
		Name: "segments", Limit: perDay, Period: quota.Day, Store: store,
		Cost: segmentsOf, Actual: segmentsBilled,
	}}
	t.Hooks = w.hooks()
	return t
}

// sender sends the rows of a job.
type sender struct {
	job    *job
	url    string
	client *http.Client
	queue  *queue
	watch  *watch
}

// run sends until all rows are done, ctx ends, or there is no sense in going on.
func (s *sender) run(ctx context.Context, workers int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	impatient := time.AfterFunc(patience, func() {
		stop(fmt.Errorf("nothing was accepted for %v; --job %s goes on with it; last: %s", patience, s.job.name, s.watch.counts().last))
	})
	defer impatient.Stop()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				r, ok := s.queue.take(ctx)
				if !ok {
					return
				}
				done, err := s.send(ctx, r)
				switch {
				case err != nil:
					stop(err)
					return
				case done:
					impatient.Reset(patience)
					s.queue.done(r)
				default:
					sleep(ctx, pause)
					s.queue.back(r)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// send makes one call for a row. If it is not done it stays pending; an error
// means that there is no sense in going on with the others.
func (s *sender) send(whole context.Context, r row) (done bool, err error) {
	ctx, cancel := context.WithTimeout(whole, callWithin)
	defer cancel()
	ctx = withDelivery(ctx, &delivery{sender: r.From, segments: r.Segments})
	// The same key in every run: an answer that was lost to a crash is found again.
	ctx = idempotency.WithKey(ctx, idempotency.Derive(s.job.name, strconv.Itoa(r.N)))
	resp, err := post(ctx, s.client, s.url, r)
	if err != nil {
		var spent *quota.SpentError
		if errors.As(err, &spent) {
			return false, fmt.Errorf("the quota of today is spent: %d segments are left, row %d needs %d; it starts anew at %s",
				spent.Left, r.N, r.Segments, spent.Resets.Format(time.RFC3339))
		}
		var store *quota.StoreError
		if errors.As(err, &store) {
			return false, err
		}
		if whole.Err() == nil {
			s.watch.failed(err.Error())
		}
		return false, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	switch status := resp.StatusCode; {
	case status < 300:
		s.watch.sent()
		return true, s.job.finish(outcome{Row: r.N})
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		return false, fmt.Errorf("%s answers %s: %s", s.url, resp.Status, text)
	case status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict &&
		status != http.StatusTooEarly && status != http.StatusTooManyRequests:
		s.watch.rejected()
		return true, s.job.finish(outcome{Row: r.N, Rejected: fmt.Sprintf("%s: %s", resp.Status, text)})
	default:
		s.watch.failed(resp.Status)
		return false, nil
	}
}

// post sends the row as JSON.
func post(ctx context.Context, c *http.Client, url string, r row) (*http.Response, error) {
	body, err := json.Marshal(r.Message)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if secret := os.Getenv("SMS_AUTHORIZATION"); secret != "" {
		req.Header.Set("Authorization", secret)
	}
	return c.Do(req)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
