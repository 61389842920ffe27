package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/pacer"
)

const (
	workers    = 4
	naivePause = 50 * time.Millisecond // before a naive client tries again
)

// caller is a program with more work than it may do: four workers, each with one
// call after the other.
type caller struct {
	polite   bool
	address  string // where it calls from, as the load balancer says
	account  string // it signs in as; empty: it stays anonymous
	method   string
	path     string
	cost     int64 // of a call, in the provider's units
	guessing bool  // passwords

	tally
}

// work calls the API at url until ctx ends.
func (c *caller) work(ctx context.Context, base http.RoundTripper, url string) {
	token := ""
	if c.account != "" && !c.guessing {
		var err error
		if token, err = c.signIn(ctx, base, url); err != nil {
			c.failed(err)
			return
		}
	}
	client := &http.Client{Transport: &wire{base, c}}
	if c.polite { // the whole difference
		t := polite.NewTransport(client.Transport)
		t.Cost = func(*http.Request) int64 { return c.cost } // as the policies say
		client.Transport = t
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				c.call(ctx, client, url, token)
			}
		})
	}
	all.Wait()
}

// call makes one call, and tries again as its kind does.
func (c *caller) call(ctx context.Context, client *http.Client, url, token string) {
	one := &call{begin: time.Now()}
	r, err := c.request(context.WithValue(ctx, callKey{}, one), url, token)
	for err == nil && ctx.Err() == nil {
		var resp *http.Response
		if resp, err = client.Do(r); err != nil {
			break
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests {
			c.ended(one)
			return
		}
		if c.polite {
			c.notBefore(headerparse.Parse(resp.StatusCode, resp.Header, time.Now()).Wait)
			return
		}
		pause(ctx, naivePause)
	}
	var wait *pacer.WaitError
	switch {
	case errors.As(err, &wait): // nothing was sent, and asking again in a second costs the provider nothing
		c.notBefore(wait.Wait)
		pause(ctx, time.Second)
	case err != nil && ctx.Err() == nil:
		c.failed(err)
		pause(ctx, time.Second)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (c *caller) request(ctx context.Context, url, token string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, c.method, url+c.path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Forwarded-For", c.address)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if c.guessing {
		r.SetBasicAuth(c.account, "is it "+time.Now().String())
	}
	return r, nil
}

// signIn trades name and password for a token.
func (c *caller) signIn(ctx context.Context, base http.RoundTripper, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/login", nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("X-Forwarded-For", c.address)
	r.SetBasicAuth(c.account, password)
	resp, err := base.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s cannot sign in: %s", c.account, resp.Status)
	}
	var said struct{ Token string }
	err = json.NewDecoder(resp.Body).Decode(&said)
	return said.Token, err
}
