package main

import (
	"context"
	"io"
	"net/http"
)

// naiveTries is how often the loop without manners tries, at once each time.
const naiveTries = 3

// naively sends the list as it is often done: one after the other, and when a
// call fails, again. Nothing paces it, no answer is read for how long to wait,
// and no key tells a repeat from another message.
func naively(ctx context.Context, base http.RoundTripper, url string, rows []row, w *watch) {
	client := &http.Client{Transport: base}
	for _, r := range rows {
		if naivelyOne(ctx, client, url, r) {
			w.sent()
		} else {
			w.gaveUp()
		}
	}
}

func naivelyOne(ctx context.Context, c *http.Client, url string, r row) (sent bool) {
	for range naiveTries {
		resp, err := post(ctx, c, url, r)
		if err != nil {
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 300 {
			return true
		}
	}
	return false
}
