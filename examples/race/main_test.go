package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	// With -race, each that is started would wait a second at its end.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	actAsInstance() // the two processes are this one again
	os.Exit(m.Run())
}

// Of 400 requests of two processes exactly 50 are admitted, in every one of the
// rounds; read-then-write lets more through.
func TestRace(t *testing.T) {
	for name, args := range map[string][]string{"redis-server": nil, "miniredis": {"--redis", embedded}} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("redis-server"); err != nil && args == nil {
				if os.Getenv("CI") == "true" {
					t.Fatal("there is no redis-server in PATH, and with CI=true the experiment must run in a real Redis")
				}
				t.Skip("SKIPPED: there is no redis-server in PATH")
			}
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), append(args, "--rounds", strconv.Itoa(rounds)), &out))
			t.Log(out.String())
			assert.Contains(t, out.String(), "One script:\n "+strings.Repeat(" 50", rounds)+" admitted\n")
			assert.Contains(t, out.String(), "before anybody writes:\n  400 admitted\n")
		})
	}
}

func TestArguments(t *testing.T) {
	var out bytes.Buffer
	require.ErrorContains(t, run(t.Context(), []string{"x"}, &out), `what is "x"?`)
	require.ErrorContains(t, run(t.Context(), []string{"--rounds", "0"}, &out), "--rounds is 0")
	require.ErrorContains(t, run(t.Context(), []string{"--redis", "127.0.0.1:1"}, &out), "--redis 127.0.0.1:1")
}
