package rttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

type wrap = func(http.RoundTripper) http.RoundTripper

// broken transports: each row is caught by the check it names, whatever else
// catches it too.
var broken = []struct {
	check, fault string
	wrap         wrap
	opts         []Option
}{
	{"C01", "a 5xx becomes an error", after(func(r *http.Request, resp *http.Response) (*http.Response, error) {
		if resp.StatusCode >= 500 {
			return nil, errors.New(resp.Status)
		}
		return resp, nil
	}), nil},
	{"C01", "an unknown status becomes 500", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		if resp.StatusCode > 599 {
			resp.StatusCode = 500
		}
		return resp, nil
	}), nil},
	{"C02", "exhausted: both", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		if resp.StatusCode == 503 {
			return resp, errors.New("giving up")
		}
		return resp, nil
	}), nil},
	{"C02", "a failed dial: neither", failed(func(error) error { return nil }), nil},
	{"C02", "a refusal: neither", good, []Option{Refuses("closed", instead(func(*http.Request) (*http.Response, error) { return nil, nil }))}},
	{"C03", "an http.Client inside follows", inside(&http.Client{}), nil},
	{"C03", "an http.Client inside that stops", inside(&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}), nil},
	{"C03", "Location is moved away", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		resp.Header.Del("Location")
		return resp, nil
	}), nil},
	{"C04", "an http.Client inside adds Authorization", inside(&http.Client{}), nil},
	{"C04", "a header that is not documented", copied(func(r *http.Request) { r.Header.Set("X-Attempt", "1") }), nil},
	{"C05", "a header in the caller's map", before(func(r *http.Request) { r.Header.Set("X-Attempt", "1") }), nil},
	{"C05", "another body", before(func(r *http.Request) {
		if r.Body != nil {
			r.Body = struct{ io.ReadCloser }{r.Body}
		}
	}), nil},
	{"C05", "another GetBody", before(func(r *http.Request) {
		if r.GetBody != nil {
			r.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
		}
	}), nil},
	{"C05", "the user is taken from the URL", before(func(r *http.Request) {
		if r.URL != nil {
			r.URL.User = nil
		}
	}), nil},
	{"C05", "a refusal marks the request", good, []Option{Refuses("closed", instead(func(r *http.Request) (*http.Response, error) {
		r.Host = ""
		return nil, errors.New("closed")
	}))}},
	{"C06", "a header in a nil map", copied(func(r *http.Request) { r.Header.Set("X-Attempt", "1") }), nil},
	{"C06", "the host of no URL", before(func(r *http.Request) { _ = r.URL.Host }), nil},
	{"C06", "a nil URL: body left open", instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.URL == nil {
			return nil, errors.New("no URL")
		}
		return base.RoundTrip(r)
	}), nil},
	{"C07", "a refusal leaves the body open", good, []Option{Refuses("closed", instead(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("closed")
	}))}},
	{"C07", "a cancelled wait leaves the body open", good, []Option{Waits("an hour", instead(func(r *http.Request) (*http.Response, error) {
		return nil, new(reference).wait(r.Context(), time.Hour)
	}))}},
	{"C07", "closed again by the wrapper", before2(func(r *http.Request) func() { return func() { closeBody(r) } }), nil},
	{"C07", "closed again when GetBody fails", faulty(retryGetBodyError), nil},
	{"C07", "cancelled before: left open", instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return base.RoundTrip(r)
	}), nil},
	{"C08", "the copy of an attempt that is never sent", faulty(keepCopy), nil},
	{"C09", "the same body for every attempt", faulty(readTwice), nil},
	{"C09", "the body is rewound", faulty(seekBack), nil},
	{"C10", "one field for every caller's request", mixedUp(), nil},
	{"C11", "no body for a 204", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		if resp.StatusCode == 204 {
			resp.Body = nil
		}
		return resp, nil
	}), nil},
	{"C11", "a nil body below", faulty(panicOnNilBody), nil},
	{"C12", "a copy's response", copied(func(*http.Request) {}), nil},
	{"C13", "read ahead", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(b))
		return resp, err
	}), nil},
	{"C13", "cut short", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, 4096), resp.Body}
		return resp, nil
	}), nil},
	{"C13", "the length forgotten", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		resp.ContentLength = -1
		return resp, nil
	}), nil},
	{"C13", "the TLS state forgotten", after(func(r *http.Request, resp *http.Response) (*http.Response, error) {
		c := *resp
		c.TLS = nil
		return &c, nil
	}), nil},
	{"C14", "a copy's trailer", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		c := *resp
		c.Trailer = resp.Trailer.Clone()
		return &c, nil
	}), nil},
	{"C14", "the trailer that was not announced", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		c := *resp
		return &c, nil
	}), nil},
	{"C15", "a body wrapped whatever the status", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		resp.Body = struct{ io.ReadCloser }{resp.Body}
		return resp, nil
	}), nil},
	{"C15", "a time limit for the tunnel", limited(time.Minute), nil},
	{"C16", "Request.Clone", faulty(cloneRequest), nil},
	{"C16", "Expect removed", copied(func(r *http.Request) { r.Header.Del("Expect") }), nil},
	{"C17", "the context detached", copied(func(r *http.Request) { *r = *r.WithContext(context.WithoutCancel(r.Context())) }), nil},
	{"C18", "time.Sleep", faulty(sleepThrough), nil},
	{"C18", "the cause lost", faulty(loseCause), nil},
	{"C18", "context.Canceled lost", faulty(loseCancel), nil},
	{"C18", "a wait in a room that sleeps", good, []Option{Waits("an hour", instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		time.Sleep(time.Hour)
		return base.RoundTrip(r)
	}))}},
	{"C19", "Timeout hidden", failed(func(err error) error { return errors.New(err.Error()) }), nil},
	{"C19", "the deadline detached", copied(func(r *http.Request) {
		*r = *r.WithContext(context.WithoutCancel(r.Context()))
	}), nil},
	{"C20", "a context is never cancelled", faulty(forgetCancel), nil},
	{"C20", "a goroutine for each call", before(func(r *http.Request) { go time.Sleep(time.Hour) }), nil},
	{"C20", "Close does not reach the base", after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		if resp.StatusCode != http.StatusSwitchingProtocols {
			resp.Body = io.NopCloser(resp.Body)
		}
		return resp, nil
	}), nil},
	{"C21", "the method is missing", func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(good(base).RoundTrip)
	}, nil},
	{"C21", "called on every failure", faulty(closeIdleOnFailure), nil},
	{"C22", "a context without the caller's values", copied(func(r *http.Request) {
		ctx, cancel := context.WithCancelCause(context.Background())
		context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
		*r = *r.WithContext(ctx)
	}), nil},
	{"C23", "left open", faulty(leaveOpen), nil},
	{"C23", "a connection for every attempt", faulty(drainNone), nil},
	{"C23", "read to the end, however far", faulty(drainAll), nil},
	{"C24", "only \"GET\" is retried", faulty(getOnly), nil},
	{"C25", "an error made of text", failed(func(err error) error { return fmt.Errorf("giving up: %v", err) }), nil},
	{"C26", "a place is not given back", oneAtATime(), nil},
	{"C26", "the panic becomes an error", instead2(func(base http.RoundTripper, r *http.Request) (resp *http.Response, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return good(base).RoundTrip(r)
	}), nil},
	{"C26", "the panic becomes another", instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		defer func() {
			if p := recover(); p != nil {
				panic(fmt.Sprint("wrapped: ", p))
			}
		}()
		return good(base).RoundTrip(r)
	}), nil},
}

func TestEveryCheckCatchesWhatItNames(t *testing.T) {
	caught := make(map[string]bool)
	for _, b := range broken {
		t.Run(b.check+" "+b.fault, func(t *testing.T) {
			o := &options{wrap: b.wrap}
			for _, opt := range b.opts {
				opt(o)
			}
			for _, c := range checks {
				if strings.HasPrefix(c.name, b.check) {
					failures := try(t, c, o)
					assert.NotEmpty(t, failures, "%s lets it pass", c.name)
					caught[b.check] = len(failures) > 0
				}
			}
		})
	}
	assert.Len(t, caught, Count, "checks with a transport that they catch")
}

// tamper does something before and after a transport that is otherwise good.
type tamper struct {
	http.RoundTripper
	do func(base http.RoundTripper, r *http.Request) (*http.Response, error)
}

func (t tamper) RoundTrip(r *http.Request) (*http.Response, error) { return t.do(t.RoundTripper, r) }
func (t tamper) CloseIdleConnections()                             { closeIdle(t.RoundTripper) }

func instead2(do func(base http.RoundTripper, r *http.Request) (*http.Response, error)) wrap {
	return func(base http.RoundTripper) http.RoundTripper { return tamper{base, do} }
}

func instead(do func(*http.Request) (*http.Response, error)) wrap {
	return instead2(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) { return do(r) })
}

func faulty(f fault) wrap {
	return func(base http.RoundTripper) http.RoundTripper { return &reference{base: base, fault: f} }
}

func after(f func(*http.Request, *http.Response) (*http.Response, error)) wrap {
	return instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := good(base).RoundTrip(r)
		if err != nil {
			return resp, err
		}
		return f(r, resp)
	})
}

func failed(f func(error) error) wrap {
	return instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := good(base).RoundTrip(r)
		if err != nil {
			err = f(err)
		}
		return resp, err
	})
}

func before(f func(*http.Request)) wrap {
	return before2(func(r *http.Request) func() { f(r); return func() {} })
}

func before2(f func(*http.Request) func()) wrap {
	return instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		defer f(r)()
		return good(base).RoundTrip(r)
	})
}

// copied sends a copy whose header may be changed.
func copied(f func(*http.Request)) wrap {
	return instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		c := r.WithContext(r.Context())
		c.Header = r.Header.Clone()
		f(c)
		return good(base).RoundTrip(c)
	})
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// inside sends by an http.Client, as engines do.
func inside(c *http.Client) wrap {
	return instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		client := *c
		client.Transport = good(base)
		return client.Do(r.WithContext(r.Context()))
	})
}

// limited gives every response so long, body included.
func limited(d time.Duration) wrap {
	return after(func(_ *http.Request, resp *http.Response) (*http.Response, error) {
		time.AfterFunc(d, func() { _ = resp.Body.Close() })
		return resp, nil
	})
}

// mixedUp keeps the request in a field that all callers share.
func mixedUp() wrap {
	var mu sync.Mutex
	var last *http.Request
	return instead2(func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		mu.Lock()
		last = r
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		r = last.WithContext(r.Context())
		mu.Unlock()
		if r.GetBody != nil {
			r.Body, _ = r.GetBody()
		}
		return good(base).RoundTrip(r)
	})
}

// oneAtATime frees its place only if nothing panics.
func oneAtATime() wrap {
	return func(base http.RoundTripper) http.RoundTripper {
		place := make(chan struct{}, 1)
		return tamper{base, func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
			select {
			case place <- struct{}{}:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			resp, err := good(base).RoundTrip(r)
			<-place
			return resp, err
		}}
	}
}
