package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is a process of the fleet if it is started as one.
func TestMain(m *testing.M) {
	// With -race, each that is started would wait a second at its end.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	if len(os.Args) > 1 && os.Args[1] == beMember {
		main()
		return
	}
	os.Exit(m.Run())
}

var lastLine = regexp.MustCompile(`used ([0-9.]+) % of the limit, and was refused (\d+) times`)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"--processes", "3", "--rate", "100", "--for", "3s"}, &out))
	t.Log("\n" + out.String())
	text := out.String()
	assert.Contains(t, text, "3 processes share one pace of 100 a second, held by a miniredis in here.")
	assert.Contains(t, text, "\n  1 to 2 ")
	assert.Contains(t, text, "\nprocess 3 ")
	assert.NotContains(t, text, "\x1b")
	require.Regexp(t, lastLine, text)
	assert.Equal(t, "0", lastLine.FindStringSubmatch(text)[2])
	if !raced {
		assert.NotContains(t, text, "keeps to its share")
	}
}

func TestOptions(t *testing.T) {
	for _, args := range []string{"--processes 0", "--processes 1000", "--rate 1", "--for 1s", "what", "--unknown", "--redis 127.0.0.1:1"} {
		var out bytes.Buffer
		require.Error(t, run(t.Context(), strings.Fields(args), &out), args)
	}
}

// A process without a Redis sends all the same, ends when its input does, and says
// what is wrong with its arguments.
func TestMember(t *testing.T) {
	require.Error(t, member(strings.NewReader(""), nil))
	require.Error(t, member(strings.NewReader(""), []string{"0", "x", "1", "127.0.0.1:1", "http://127.0.0.1:1"}))
	require.Error(t, member(strings.NewReader(""), []string{"0", "1", "1", "nowhere", "http://127.0.0.1:1"}))
	sent := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case sent <- r.Header.Get(header):
		default:
		}
	}))
	defer server.Close()
	cmd := exec.Command(os.Args[0], beMember, "7", "1", "10", "127.0.0.1:1", server.URL)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = in.Write([]byte("go\n"))
	require.NoError(t, err)
	select {
	case number := <-sent:
		assert.Equal(t, "7", number)
	case <-time.After(time.Minute):
		t.Error("nothing was sent for a minute")
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

func TestBarsAndManyProcesses(t *testing.T) {
	o := options{processes: 12, rate: 120, period: 3 * time.Second}
	c := &counts{lasted: 2500 * time.Millisecond, size: 12}
	for i := range 300 {
		c.calls = append(c.calls, call{at: time.Duration(i) * 8 * time.Millisecond, process: i % 12, refused: i == 290})
	}
	var out bytes.Buffer
	v := &view{out: &out, options: o}
	v.draw(c)
	assert.Equal(t, "  0 to 1    125    0  from 10 to 11\n  1 to 2    125    0  from 10 to 11\n", out.String())
	out.Reset()
	v.bars = true
	v.draw(c)
	v.draw(c)
	assert.Contains(t, out.String(), "process 12")
	assert.Contains(t, out.String(), "\x1b[14A")
	assert.Contains(t, out.String(), "1 refused in the last second")
	out.Reset()
	report(&out, c, o)
	assert.Contains(t, out.String(), "used 96.7 % of the limit, and was refused 1 times")
}
