package journal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/examples/sms/journal"
)

func TestTornLastLineIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	for torn := range len("3\n") + 1 {
		require.NoError(t, os.WriteFile(path, []byte("1\n2\n"+"33\n"[:torn]), 0o600))
		got, err := journal.Read[int](path)
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, got)

		var seen []int
		j, err := journal.Open(path, true, func(v int) { seen = append(seen, v) })
		require.NoError(t, err)
		require.NoError(t, j.Append(4))
		require.NoError(t, j.Close())
		assert.Equal(t, []int{1, 2}, seen)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "1\n2\n4\n", string(text))
	}
}

func TestCorruptLineIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	require.NoError(t, os.WriteFile(path, []byte("1\nx\n3\n"), 0o600))
	_, err := journal.Read[int](path)
	require.ErrorContains(t, err, "line 2")
	_, err = journal.Open(path, false, func(int) {})
	require.ErrorContains(t, err, "line 2")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "1\nx\n3\n", string(text), "and nothing is cut off")
}

func TestNoFileHasNoLines(t *testing.T) {
	got, err := journal.Read[int](filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	assert.Empty(t, got)
}
