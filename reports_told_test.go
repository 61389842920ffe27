package polite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/retry"
)

// Reports about waits: what the provider told, what fits, what ends them.

// parse reads the header of a 429.
func parse(header ...string) headerparse.Signal {
	return headerparse.Parse(429, reply(nil, 429, header...).Header, time.Now())
}

// requireTold requires that a wait was the told one, lengthened by at most a tenth.
func requireTold(t *testing.T, told, waited time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, waited, told, "undercut")
	require.LessOrEqual(t, waited, told+told/10)
}

func toldOverTheCap(t *testing.T) {
	for _, c := range []struct {
		name   string
		cap    time.Duration
		told   string
		waited bool
	}{
		{"at the cap", 30 * time.Second, "30", true},
		{"over the cap", 30 * time.Second, "31", false},
		{"an hour", 30 * time.Second, "3600", false},
		{"at the default cap", 0, "300", true},
		{"over the default cap", 0, "301", false},
	} {
		p := newProvider(inTurn(says(429, "Retry-After", c.told), says(200)))
		tr := tries(p, func(p *retry.Policy) { p.MaxRetryAfter = c.cap })
		h := listen(tr)
		resp, err := get(t, tr)
		require.NoError(t, err, c.name)
		s, _ := strconv.Atoi(c.told)
		told := time.Duration(s) * time.Second
		require.Equal(t, told, h.answers[0].Told, c.name)
		if c.waited {
			require.Equal(t, 200, resp.StatusCode, c.name)
			requireTold(t, told, p.at[1])
			continue
		}
		assert.Zero(t, time.Since(p.start), c.name)
		assert.Len(t, p.at, 1, c.name)
		assert.Equal(t, 429, resp.StatusCode, c.name)
		assert.Equal(t, c.told, resp.Header.Get("Retry-After"), c.name)
		assert.Equal(t, []observe.Reason{observe.TooLong}, h.why(), c.name)
	}
	// The recommended client holds its next call back as well.
	p := newProvider(says(429, "Retry-After", "3600"))
	tr := polite.NewTransport(p)
	assert.Equal(t, 429, status(t, tr))
	_, err := get(t, tr)
	var wait *pacer.WaitError
	require.ErrorAs(t, err, &wait)
	assert.GreaterOrEqual(t, wait.Wait, time.Hour)
	assert.Len(t, p.at, 1)
}

// What is told for more than a year is not believed. It must not fire at once,
// which is what the product of these and a second does.
func toldOverflows(t *testing.T) {
	for _, value := range []string{"31622401", "9223372037", "18446744074", "9223372036854775807", "9223372036854775808", strings.Repeat("9", 400)} {
		s := parse("Retry-After", value)
		assert.False(t, s.Told, value)
		assert.Zero(t, s.Wait, value)
		p := newProvider(inTurn(says(429, "Retry-After", value), says(429, "Retry-After", value), says(200)))
		assert.Equal(t, 200, status(t, tries(p)), value)
		assert.Equal(t, seconds(0, 1, 3), p.at, value)
	}
	const year = "31622400" // 366 days
	p := newProvider(inTurn(says(429, "Retry-After", year), says(200)))
	assert.Equal(t, 429, status(t, tries(p)))
	assert.Zero(t, time.Since(p.start))
	assert.Equal(t, 200, status(t, tries(p)))
	p = newProvider(inTurn(says(429, "Retry-After", year), says(200)))
	assert.Equal(t, 200, status(t, tries(p, func(p *retry.Policy) { p.MaxRetryAfter = -1 })), "who allows any wait waits it")
	requireTold(t, 366*24*time.Hour, p.at[1])
}

func toldNegative(t *testing.T) {
	for _, header := range [][2]string{{"Retry-After", "-5"}, {"Retry-After", "-1"}, {"Retry-After-Ms", "-1"}, {"Retry-After-Ms", "-0.5"}, {"X-Ratelimit-Reset", "-7"}} {
		s := parse(header[0], header[1])
		assert.False(t, s.Told, header)
		assert.GreaterOrEqual(t, s.Wait, time.Duration(0), header)
		p := newProvider(inTurn(says(429, header[0], header[1]), says(429, header[0], header[1]), says(200)))
		assert.Equal(t, 200, status(t, tries(p)), header)
		assert.Equal(t, seconds(0, 1, 3), p.at, header)
	}
}

func waitPastDeadline(t *testing.T) {
	slow := func(p *retry.Policy) { p.Base = 10 * time.Second }
	short := func(d time.Duration) *http.Request {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return request(t, "GET", api, "").WithContext(ctx)
	}
	p := newProvider(answers(503, 200))
	resp, err := do(t, tries(p, slow), short(5*time.Second))
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "body", read(t, resp))
	assert.Zero(t, time.Since(p.start))

	p = newProvider(fails(dialError()))
	_, err = do(t, tries(p, slow), short(5*time.Second))
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, observe.Deadline, failed.Reason)
	assert.ErrorContains(t, err, "connection refused")
	assert.Zero(t, time.Since(p.start))

	p = newProvider(inTurn(says(429, "Retry-After", "60"), says(200)))
	resp, err = do(t, tries(p), short(time.Minute))
	require.NoError(t, err)
	assert.Equal(t, 429, resp.StatusCode, "a wait that ends with the deadline leaves no time")
	assert.Zero(t, time.Since(p.start))

	p = newProvider(answers(503, 200))
	resp, err = do(t, tries(p, slow), short(11*time.Second))
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode, "a wait that fits is waited")
	assert.Equal(t, seconds(0, 10), p.at)
}

func waitPastMaxElapsed(t *testing.T) {
	within := func(d time.Duration) func(*retry.Policy) {
		return func(p *retry.Policy) { p.MaxElapsed, p.MaxAttempts = d, -1 }
	}
	p := newProvider(says(503, "Retry-After", "60"))
	assert.Equal(t, 503, status(t, tries(p, within(30*time.Second))))
	assert.Equal(t, seconds(0), p.at)
	assert.Zero(t, time.Since(p.start), "a part of the wait was waited")

	p = newProvider(answers(503))
	assert.Equal(t, 503, status(t, tries(p, within(6*time.Second))))
	assert.Equal(t, seconds(0, 1, 3), p.at, "the next would be at 7 s")
	assert.Equal(t, 3*time.Second, time.Since(p.start))

	p = newProvider(func(int, *http.Request) (*http.Response, error) {
		time.Sleep(2 * time.Second)
		return nil, errors.New("reset")
	})
	_, err := get(t, tries(p, within(6*time.Second)))
	require.ErrorContains(t, err, "reset")
	assert.Equal(t, seconds(0, 3), p.at, "what tries take counts too")
}

// Check decides by what stands in the body, which the caller still gets whole.
func peek(t *testing.T) {
	long := `{"code":"spent","detail":"` + strings.Repeat("x", 100_000) + `"}`
	for _, c := range []struct {
		text  string
		tries int
	}{{`{"code":"busy"}`, 3}, {long, 1}} {
		p := newProvider(func(_ int, r *http.Request) (*http.Response, error) {
			resp := reply(r, 429)
			resp.Body = io.NopCloser(strings.NewReader(c.text))
			return resp, nil
		})
		tr := tries(p, func(p *retry.Policy) {
			p.MaxAttempts = 3
			p.Check = func(a *retry.Attempt) retry.Verdict {
				start := make([]byte, 64)
				n, _ := io.ReadFull(a.Response.Body, start)
				rest := a.Response.Body
				a.Response.Body = struct {
					io.Reader
					io.Closer
				}{io.MultiReader(bytes.NewReader(start[:n]), rest), rest}
				if bytes.Contains(start[:n], []byte(`"spent"`)) {
					return retry.Stop
				}
				return retry.ByTable
			}
		})
		resp, err := get(t, tr)
		require.NoError(t, err)
		assert.Equal(t, 429, resp.StatusCode)
		assert.Len(t, p.at, c.tries)
		assert.Equal(t, c.text, read(t, resp))
	}
}

func cancelledWait(t *testing.T) {
	for name, tr := range map[string]*polite.Transport{
		"backoff": tries(newProvider(answers(503)), func(p *retry.Policy) { p.Base = 10 * time.Second }),
		"told":    tries(newProvider(says(429, "Retry-After", "10"))),
		"pace": func() *polite.Transport {
			pace := &pacer.Pacer{Rate: pacer.Per(1, 10*time.Second), Burst: 1}
			tr := &polite.Transport{Base: newProvider(answers(200)), Pacer: pace}
			assert.Equal(t, 200, status(t, tr))
			return tr
		}(),
		"hold": func() *polite.Transport {
			tr := polite.NewTransport(newProvider(answers(200)))
			tr.Pacer.Hold("http://api.test:80", time.Now().Add(10*time.Second))
			return tr
		}(),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := do(t, tr, request(t, "GET", api, "").WithContext(ctx))
		assert.ErrorIs(t, err, context.Canceled, name)
		assert.Equal(t, 50*time.Millisecond, time.Since(start), name)
	}
}

func endedTellsBoth(t *testing.T) {
	why := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(500*time.Millisecond, func() { cancel(why) })
	_, err := do(t, tries(newProvider(says(503, "Retry-After", "20"))), request(t, "GET", api, "").WithContext(ctx))
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, why)
	assert.Equal(t, 503, failed.Status)
	assert.Equal(t, 20*time.Second, failed.Signal.Wait)
	assert.Equal(t, 1, failed.Sent)
	assert.ErrorContains(t, err, "status 503")
	assert.ErrorContains(t, err, "the user left")
	assert.False(t, failed.Timeout())

	// The limit is reached in the second try.
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	_, err = do(t, tries(newProvider(inTurn(says(503), hang))), request(t, "GET", api, "").WithContext(ctx))
	require.ErrorAs(t, err, &failed)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.True(t, failed.Timeout())
	assert.Equal(t, 503, failed.Status)
	assert.Equal(t, 2, failed.Sent)
}

func millisecondsAndVeto(t *testing.T) {
	p := newProvider(inTurn(says(503, "Retry-After-Ms", "250", "Retry-After", "1"), says(200)))
	assert.Equal(t, 200, status(t, tries(p, atOnce)))
	requireTold(t, 250*time.Millisecond, p.at[1])

	p = newProvider(says(503, "X-Should-Retry", "false"))
	assert.Equal(t, 503, status(t, tries(p)))
	assert.Len(t, p.at, 1)

	p = newProvider(inTurn(says(400, "X-Should-Retry", "true"), says(200)))
	assert.Equal(t, 200, status(t, tries(p)))
}

func resets(t *testing.T) {
	time.Sleep(time.Until(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))) // an epoch of 10 digits
	const two = 2 * time.Minute
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for _, c := range []struct {
		name  string
		value func() string
		told  bool
	}{
		{"delta", func() string { return "120" }, true},
		{"epoch in seconds", func() string { return fmt.Sprint(in(two).Unix()) }, true},
		{"epoch in milliseconds", func() string { return fmt.Sprint(in(two).UnixMilli()) }, true},
		{"date", func() string { return in(two).UTC().Format(http.TimeFormat) }, true},
		{"past, in seconds", func() string { return fmt.Sprint(in(-two).Unix()) }, false},
		{"past, in milliseconds", func() string { return fmt.Sprint(in(-two).UnixMilli()) }, false},
		{"past, as a date", func() string { return in(-two).UTC().Format(http.TimeFormat) }, false},
	} {
		header := []string{"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", c.value()}
		s := parse(header...)
		p := newProvider(inTurn(says(429, header...), says(200)))
		assert.Equal(t, 200, status(t, tries(p)), c.name)
		if c.told {
			assert.True(t, s.Told, c.name)
			assert.Equal(t, two, s.Wait, c.name)
			requireTold(t, two, p.at[1])
		} else {
			assert.Zero(t, s.Wait, c.name)
			assert.Equal(t, seconds(0, 1), p.at, c.name)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // whole seconds again
	}
}

// Without a hint the waits are at least what the policy says, and grow.
func limitedWithoutHint(t *testing.T) {
	minute := func(p *retry.Policy) { p.Base, p.Cap = time.Minute, -1 }
	p := newProvider(answers(429))
	assert.Equal(t, 429, status(t, tries(p, minute)))
	assert.Equal(t, seconds(0, 60, 180, 420), p.at)

	// A 403 is final, unless the caller knows that this provider limits by it.
	p = newProvider(answers(403))
	assert.Equal(t, 403, status(t, tries(p, minute)))
	assert.Len(t, p.at, 1)
	p = newProvider(answers(403))
	assert.Equal(t, 403, status(t, tries(p, minute, func(p *retry.Policy) {
		p.Jitter = retry.EqualJitter
		p.Check = func(a *retry.Attempt) retry.Verdict {
			if a.Response != nil && a.Response.StatusCode == 403 {
				return retry.Retry
			}
			return retry.ByTable
		}
	})))
	require.Len(t, p.at, 4)
	for i, least := range seconds(30, 60, 120) {
		assert.GreaterOrEqual(t, p.at[i+1]-p.at[i], least)
		assert.LessOrEqual(t, p.at[i+1]-p.at[i], 2*least)
	}

	// The recommended client slows down by itself, whatever calls there are.
	p = newProvider(answers(429))
	tr := polite.NewTransport(p)
	tr.Retry = nil
	for range 10 {
		assert.Equal(t, 429, status(t, tr))
	}
	for i := 2; i < len(p.at); i++ {
		assert.GreaterOrEqual(t, p.at[i]-p.at[i-1], time.Second, "call %d", i+1)
	}
}
