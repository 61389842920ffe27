package lab

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of 400 requests of two instances exactly 50 are admitted, in every one of 20
// rounds; read-then-write lets more through.
func TestRace(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no redis-server in PATH, and with CI=true the experiment must run in a real Redis")
		}
		t.Skip("SKIPPED: there is no redis-server in PATH")
	}
	r, err := race.Run(t.Context(), Options{})
	require.NoError(t, err)
	assert.True(t, r.OK(), "%v", r.Figures)
	assert.Equal(t, []any{"one script", raceRounds, raceLimit, raceLimit}, r.Tables[0].Rows[2])
	assert.Contains(t, r.Notes[0], "redis-server that was started for this")
}

// Without a redis-server it says so, and runs in one within the program.
func TestRaceWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if raced {
		oneRound(t)
	} else {
		r, err := race.Run(t.Context(), Options{})
		require.NoError(t, err)
		assert.True(t, r.OK(), "%v", r.Figures)
		assert.Contains(t, r.Notes[0], "there is no redis-server")
	}

	_, err := race.Run(t.Context(), Options{Redis: "127.0.0.1:1"})
	require.ErrorContains(t, err, "--redis 127.0.0.1:1")
}

// oneRound is one of the experiment's rounds in the Redis within the program,
// whose scripts take seconds for all of them with the race detector.
func oneRound(t *testing.T) {
	t.Helper()
	r, err := findRedis(t.Context(), "")
	require.NoError(t, err)
	defer r.stop()
	assert.Contains(t, r.what, "there is no redis-server")
	var all []*racer
	for range raceInstances {
		i, err := newRacer(r)
		require.NoError(t, err)
		defer i.stop()
		all = append(all, i)
	}
	admitted, err := (&way{ask: (*racer).script}).round(t.Context(), all, "key")
	require.NoError(t, err)
	assert.Equal(t, raceLimit, admitted)
}
