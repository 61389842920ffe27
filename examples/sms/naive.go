package main

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// naiveTries is how often the program without manners tries, at once each time.
const naiveTries = 10

// naively sends the same list as it is often done: some workers, http.Client,
// and when a call fails, again. Nothing paces it, no answer is read for how long
// to wait, and no key tells a repeat from another message.
func naively(ctx context.Context, base http.RoundTripper, url string, rows []row, workers int, w *watch) {
	client := &http.Client{Transport: base}
	work := make(chan row)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for r := range work {
				naiveSend(ctx, client, url, r, w)
			}
		})
	}
	for _, r := range rows {
		work <- r
	}
	close(work)
	all.Wait()
}

func naiveSend(ctx context.Context, c *http.Client, url string, r row, w *watch) {
	for range naiveTries {
		resp, err := post(ctx, c, url, r)
		if err != nil {
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 300 {
			w.sent()
			return
		}
	}
	w.gaveUp()
}
