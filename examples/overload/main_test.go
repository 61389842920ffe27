package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	// With -race, each that is started would wait a second at its end.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	if isLoad() {
		os.Exit(load(context.Background(), os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// TestRun asks for so little time that what comes of it is not judged.
func TestRun(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := &options{period: 3 * time.Second, runs: 1, times: 3, wait: 100 * time.Millisecond, measuring: 2 * time.Second}
	all, err := demonstrate(t.Context(), o, &out)
	require.NoError(t, err)
	report(&out, o, all)
	assert.Less(t, all[0].of(all[0].late()), all[1].of(all[1].late()), "what the Gate is for")
	assert.Positive(t, all[1].Refused)
	assert.Zero(t, all[0].Refused)
	assert.Contains(t, out.String(), "Gate, 1")
	t.Log("\n" + out.String())
}

// TestPromises is the command as it is.
func TestPromises(t *testing.T) {
	if os.Getenv("POLITE_LONG") == "" {
		t.Skip("takes two minutes; POLITE_LONG=1 runs it")
	}
	var out bytes.Buffer
	err := run(t.Context(), nil, &out)
	t.Log("\n" + out.String())
	require.NoError(t, err)
}

func TestWhatIsNoCommand(t *testing.T) {
	for _, args := range [][]string{{"fast"}, {"--for", "1s"}, {"--runs", "0"}, {"--times", "0"}, {"--times", "NaN"}, {"--wait", "0"}, {"--what"}} {
		var out bytes.Buffer
		assert.Error(t, run(t.Context(), args, &out), "%v", args)
	}
}
