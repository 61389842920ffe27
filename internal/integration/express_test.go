package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	expressLimit  = 10
	expressWindow = 2 * time.Second
)

// express starts express-rate-limit on Node.js and returns its URL.
func express(t *testing.T) string {
	t.Helper()
	node, dir := nodeWith(t, "ratelimit", "express-rate-limit")
	cmd := exec.Command(node, "server.mjs")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // held open: the server ends with it, whatever becomes of this test
	require.NoError(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	start(t, cmd)
	port, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "the Node server did not say its port")
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// The provider says what is left and when it is full again, in four dialects.
// A client that listens is never told more often than it must that nothing is
// left, and does not ask before the time it was told.
func TestExpressRateLimitIsObeyed(t *testing.T) {
	t.Parallel()
	url := express(t)
	for _, dialect := range []string{"draft-6", "draft-7", "draft-8", "legacy"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			w, calls := newWatch(), rounds(60)
			spent := &spentWatch{base: newBase(t), began: w.began, dialect: dialect}
			rt := patientTransport(spent)
			rt.Hooks = w.hooks()
			assert.Equal(t, calls, getAll(t, spent.above(rt), url+"/"+dialect, 8, calls), "calls answered 200")
			refused, all := w.refused(0)
			t.Logf("%d of %d refused in %v; %v", refused, all, time.Since(w.began), w)
			// Fewer than there are windows: one who goes slower need not use up each.
			require.GreaterOrEqual(t, len(spent.told), calls/expressLimit/2, "answers that told that nothing is left")
			var early []string
			for _, s := range spent.told {
				require.Greater(t, s.until, s.from, "reset told")
				require.LessOrEqual(t, s.until-s.from, expressWindow+time.Second, "reset told")
				for _, start := range w.starts {
					// What is on its way out when the answer comes in is past recall.
					if start.at > s.from+leaving && start.at < s.until {
						early = append(early, fmt.Sprintf("at %v, with nothing left from %v until %v", start.at, s.from, s.until))
					}
				}
			}
			for _, s := range spent.returned {
				for _, start := range w.starts {
					if start.called > s.from && start.at < s.until {
						early = append(early, fmt.Sprintf("at %v, called at %v, after a caller had heard at %v of nothing left until %v", start.at, start.called, s.from, s.until))
					}
				}
			}
			assert.Empty(t, early, "attempts that started before the reset")
		})
	}
}

// leaving is how long an attempt may take from the pacer's leave to its start.
const leaving = 10 * time.Millisecond

// spentWatch sits below the client and reads the fields by itself: when was
// nothing left, and until when. Above the client it does the same, for a call
// that is made when another has returned with the news has no excuse at all.
type spentWatch struct {
	base    http.RoundTripper
	began   time.Time
	dialect string

	mu       sync.Mutex
	told     []spell // below
	returned []spell // above
}

func (s *spentWatch) above(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.WithContext(context.WithValue(r.Context(), calledKey{}, time.Since(s.began)))
		resp, err := rt.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if remaining, reset := s.read(resp.Header); remaining == 0 {
			now := time.Since(s.began)
			s.mu.Lock()
			s.returned = append(s.returned, spell{now, now + reset - leaving}) // it was told a little earlier
			s.mu.Unlock()
		}
		return resp, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type spell struct{ from, until time.Duration } // since the watch began

func (s *spentWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if remaining, reset := s.read(resp.Header); remaining == 0 {
		now := time.Since(s.began)
		until := now + reset
		s.mu.Lock()
		s.told = append(s.told, spell{now, until})
		s.mu.Unlock()
	}
	return resp, nil
}

// read returns what the fields of the dialect say; -1 if they are not there.
func (s *spentWatch) read(h http.Header) (remaining int, reset time.Duration) {
	var r, t string
	switch s.dialect {
	case "draft-6":
		r, t = h.Get("RateLimit-Remaining"), h.Get("RateLimit-Reset")
	case "draft-7":
		r, t = member(h.Get("RateLimit"), "remaining="), member(h.Get("RateLimit"), "reset=")
	case "draft-8":
		r, t = member(h.Get("RateLimit"), "r="), member(h.Get("RateLimit"), "t=")
	case "legacy":
		r, t = h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")
	}
	remaining, err := strconv.Atoi(r)
	seconds, err2 := strconv.ParseInt(t, 10, 64)
	if err != nil || err2 != nil {
		return -1, 0
	}
	if s.dialect == "legacy" { // an instant, by a clock that both ends share here
		return remaining, time.Until(time.Unix(seconds, 0))
	}
	return remaining, time.Duration(seconds) * time.Second
}

// member is the value that follows a name in a list of them.
func member(list, name string) string {
	for _, part := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ';' || r == ' ' }) {
		if value, ok := strings.CutPrefix(part, name); ok {
			return value
		}
	}
	return ""
}
