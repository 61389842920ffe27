package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
)

// Clients that nobody here wrote obey what a Guard answers: 30 calls against
// 10 in 2 s end well with each, by no more than its own knob for retries.
func TestClientsOfAnotherMakeObey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		command func(t *testing.T, url string) *exec.Cmd
		refused int // at most, of calls that are made one by one or all at once
	}{
		{"curl", curl, oneByOne},
		{"urllib3", urllib3, oneByOne},
		{"got", script("got"), atOnce},
		{"axios-retry", script("axios-retry"), atOnce},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newGuarded(t)
			cmd := c.command(t, p.url)
			cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "it said: %s", out)
			p.obeyed(t)
			p.mu.Lock()
			defer p.mu.Unlock()
			assert.GreaterOrEqual(t, p.refused, 1, "calls refused, or the limit was not met")
			assert.LessOrEqual(t, p.refused, c.refused, "calls refused")
			t.Logf("%d of %d refused, in %v", p.refused, p.refused+p.served(), p.last)
		})
	}
}

const (
	guardedCalls  = 30
	guardedLimit  = 10
	guardedWindow = 2 * time.Second

	// One refusal ends each of the windows that are not the last. A client
	// that is slower than the window's rest meets fewer.
	oneByOne = guardedCalls / guardedLimit
	// All at once: 20 are refused, then 10, and as many again if the first
	// come across the window's end or are told a second that is rounded up.
	atOnce = 2 * (20 + 10)
)

func curl(t *testing.T, url string) *exec.Cmd {
	bin := program(t, "curl", "apt-get install curl")
	return exec.CommandContext(t.Context(), bin, "--disable", "--silent", "--show-error", "--fail", "--fail-early",
		"--retry", "5", "--output", "/dev/null", url+"/[1-30]")
}

// urllib3 is Debian's, if it is there: another Python may be first in PATH.
func urllib3(t *testing.T, url string) *exec.Cmd {
	const howto = "apt-get install python3-urllib3"
	for _, python := range []string{"/usr/bin/python3", program(t, "python3", howto)} {
		if exec.CommandContext(t.Context(), python, "-c", "import urllib3").Run() == nil {
			return exec.CommandContext(t.Context(), python, filepath.Join("testdata", "clients", "urllib3-retry.py"), url)
		}
	}
	missing(t, "urllib3 is MISSING: nothing is tested against it here. To install: %s", howto)
	return nil
}

func script(name string) func(t *testing.T, url string) *exec.Cmd {
	return func(t *testing.T, url string) *exec.Cmd {
		node, dir := nodeWith(t, "clients", name)
		cmd := exec.CommandContext(t.Context(), node, name+".mjs", url)
		cmd.Dir = dir
		return cmd
	}
}

// guarded is a real server behind a Guard, and watches it from both sides: what
// the Guard answers, and what it lets through.
type guarded struct {
	url   string
	began time.Time

	mu      sync.Mutex
	passed  map[string]int           // calls that got through the Guard, by path
	refused int                      // answers of 429
	until   map[string]time.Duration // since began: when a refused call may come again
	early   []string
	last    time.Duration
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{began: time.Now(), passed: make(map[string]int), until: make(map[string]time.Duration)}
	limit, err := limiter.FixedWindow("calls", guardedLimit, guardedWindow, limiter.ToClock)
	require.NoError(t, err)
	guard := &limiter.Guard{Rules: []limiter.Rule{{Key: limiter.ByAddress(nil), Limits: []*limiter.Limit{limit}}}}
	s := httptest.NewServer(g.watch(guard.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.passed[r.URL.Path]++
	}))))
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}

func (g *guarded) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came := time.Since(g.began)
		g.mu.Lock()
		g.last = came
		if until := g.until[r.URL.Path]; came < until-timerGrain {
			g.early = append(g.early, fmt.Sprintf("%s at %v, told %v", r.URL.Path, came, until))
		}
		g.mu.Unlock()
		next.ServeHTTP(&answerWatch{ResponseWriter: w, guarded: g, path: r.URL.Path}, r)
	})
}

// timerGrain is how much sooner than asked a program's timer may go off: those
// of Node.js count in milliseconds.
const timerGrain = 2 * time.Millisecond

// answerWatch reads what the client is told, as it is told.
type answerWatch struct {
	http.ResponseWriter
	guarded *guarded
	path    string
}

func (a *answerWatch) WriteHeader(status int) {
	if status == http.StatusTooManyRequests {
		seconds, err := strconv.Atoi(a.Header().Get("Retry-After"))
		g := a.guarded
		g.mu.Lock()
		g.refused++
		g.until[a.path] = time.Since(g.began) + time.Duration(seconds)*time.Second
		if err != nil || seconds < 1 {
			g.early = append(g.early, fmt.Sprintf("%s was told %q", a.path, a.Header().Get("Retry-After")))
		}
		g.mu.Unlock()
	}
	a.ResponseWriter.WriteHeader(status)
}

func (g *guarded) served() (n int) {
	for _, times := range g.passed {
		n += times
	}
	return n
}

// obeyed tells that each call got through once, and none came too early.
func (g *guarded) obeyed(t *testing.T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range guardedCalls {
		assert.Equal(t, 1, g.passed[fmt.Sprintf("/%d", i+1)], "times that call %d got through", i+1)
	}
	assert.Equal(t, guardedCalls, g.served(), "calls that got through")
	assert.Empty(t, g.early, "calls before the time they were told")
	assert.GreaterOrEqual(t, g.last, guardedWindow, "two windows are spent before the last call")
}
