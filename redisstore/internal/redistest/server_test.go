package redistest

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServer(t *testing.T) {
	s := Start(t)
	s.Do("SET", "a", "1")
	assert.Equal(t, "1", s.Get("a"))
	assert.Equal(t, 1, s.Keys())
	assert.Equal(t, 1, s.Calls()["set"])
	s.ResetCalls()
	assert.Zero(t, s.Calls()["set"])

	pid := s.pid
	s.Kill()
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "the process is gone")
	_, err := s.Try("PING")
	require.Error(t, err)
	s.Restart()
	assert.Zero(t, s.Keys(), "nothing survives")

	s.Pause()
	require.Error(t, s.ping())
	time.AfterFunc(50*time.Millisecond, s.Resume)
	assert.Equal(t, "PONG", s.Do("PING"))
}

func TestPassword(t *testing.T) {
	s := Start(t, "--requirepass", "hunter2")
	assert.Equal(t, "hunter2", s.Password)
	assert.Equal(t, "PONG", s.Do("PING"))
}

func TestMini(t *testing.T) {
	require.NoError(t, Mini(t).Set("a", "1"))
}
