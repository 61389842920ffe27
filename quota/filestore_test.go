package quota

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func tally(key string) Tally {
	start := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	return Tally{Quota: "sms \"daily\"\n", Key: key, Limit: 1000, Start: start, End: start.AddDate(0, 0, 1)}
}

func open(t *testing.T, path string) *FileStore {
	t.Helper()
	s, err := OpenFile(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func used(t *testing.T, s Store, key string) int64 {
	t.Helper()
	n, _, err := s.Spend(t.Context(), tally(key), 0)
	require.NoError(t, err)
	return n
}

func spend(t *testing.T, s Store, key string, n int64) {
	t.Helper()
	_, granted, err := s.Spend(t.Context(), tally(key), n)
	require.NoError(t, err)
	require.True(t, granted)
}

func TestFileStoreRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quota")
	keys := []string{"", "a", "ä ö", "line\nfeed", "\xff\x00", `"quoted" \`, strings.Repeat("\x01", maxName)}
	s := open(t, path)
	for i, key := range keys {
		spend(t, s, key, int64(10+i))
		spend(t, s, key, 5)
		_, err := s.Settle(t.Context(), tally(key), -3, 0)
		require.NoError(t, err)
	}
	never := Tally{Quota: "balance", Limit: 5}
	_, _, err := s.Spend(t.Context(), never, 4)
	require.NoError(t, err)
	for range 2 { // as appended, then as written anew
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		_, _, err = s.Spend(t.Context(), never, 1)
		require.ErrorIs(t, err, os.ErrClosed)
		s = open(t, path)
		for i, key := range keys {
			assert.EqualValues(t, 12+i, used(t, s, key), "%q", key)
		}
		n, granted, err := s.Spend(t.Context(), never, 2)
		require.NoError(t, err)
		assert.EqualValues(t, 4, n)
		assert.False(t, granted)
	}
	_, _, err = s.Spend(t.Context(), tally(strings.Repeat("x", maxName+1)), 1)
	require.ErrorContains(t, err, "at most 4096")
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "quota")
	s := open(t, path)
	_, err := OpenFile(path)
	require.ErrorIs(t, err, ErrInUse)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(path, link))
	_, err = OpenFile(link)
	require.ErrorIs(t, err, ErrInUse, "by whatever name")
	require.NoError(t, s.Close())
	spend(t, open(t, link), "a", 1)

	_, err = OpenFile(filepath.Join(dir, "none", "quota"))
	require.ErrorIs(t, err, os.ErrNotExist, "the directory is not made")
	_, err = OpenFile(dir)
	require.Error(t, err, "a directory is no file store")
}

// written returns a log of some lines, and what "a" has used after each.
func written(t *testing.T) (lines []string, after []int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quota")
	s := open(t, path)
	after = []int64{0}
	for i := range int64(4) {
		spend(t, s, "a", 10+i)
		after = append(after, after[i]+10+i)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines = strings.SplitAfter(string(text), "\n")
	lines = lines[:len(lines)-1]
	require.Len(t, lines, len(after))
	return lines, after
}

func TestATornLineIsRepaired(t *testing.T) {
	lines, after := written(t)
	path := filepath.Join(t.TempDir(), "quota")
	for n := 1; n < len(lines); n++ {
		whole := strings.Join(lines[:n], "")
		for cut := range len(lines[n]) + 1 {
			want := after[n-1]
			if cut >= len(lines[n])-1 { // all but the line feed is there
				want = after[n]
			}
			require.NoError(t, os.WriteFile(path, []byte(whole+lines[n][:cut]), 0o600))
			s, err := openFile(path, &faultyDisk{}, rewriteOver)
			require.NoError(t, err, "line %d cut at %d", n+1, cut)
			require.Equal(t, want, used(t, s, "a"), "line %d cut at %d", n+1, cut)
			spend(t, s, "a", 1) // and it can be gone on with
			require.NoError(t, s.Close())
			s, err = openFile(path, &faultyDisk{}, rewriteOver)
			require.NoError(t, err)
			require.Equal(t, want+1, used(t, s, "a"))
			require.NoError(t, s.Close())
		}
	}
}

// Whatever happens to any byte that was acknowledged is an error, or changes
// nothing.
func TestCorruptionIsNeverSilent(t *testing.T) {
	lines, after := written(t)
	text := strings.Join(lines, "")
	path := filepath.Join(t.TempDir(), "quota")
	line := func(at int) int { return 1 + strings.Count(text[:at], "\n") }
	check := func(about, changed string, at int) {
		b, err := readLog(strings.NewReader(changed), path)
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			require.Contains(t, []int{line(at), line(at) + 1}, corrupt.Line, about)
			return
		}
		require.NoError(t, err)
		require.Equal(t, after[len(after)-1], b.counts[idOf(tally("a"))].used, "%s at %d", about, at)
	}
	for at := range len(text) {
		for bit := range 8 {
			changed := []byte(text)
			changed[at] ^= 1 << bit
			check("flipped", string(changed), at)
		}
		check("a line feed", text[:at]+"\n"+text[at+1:], at)
		check("removed", text[:at]+text[at+1:], at)
		check("inserted", text[:at]+"0"+text[at:], at)
	}
	for n := range len(lines) - 1 { // whole lines gone, doubled, or exchanged
		at := len(strings.Join(lines[:n], ""))
		rest := strings.Join(lines[n+1:], "")
		check("gone", text[:at]+rest, at)
		check("doubled", text[:at]+lines[n]+lines[n]+rest, at)
		if n+2 < len(lines) {
			check("exchanged", text[:at]+lines[n+1]+lines[n]+strings.Join(lines[n+2:], ""), at)
		}
	}

	for about, text := range map[string]string{"empty": "", "foreign": "hello\n", "torn": "polite qu", "long": logHeader + "\n" + strings.Repeat("x", 2*maxLine)} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := OpenFile(path)
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, about)
		require.ErrorContains(t, err, path)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(left), "evidence is kept")
	}
	require.NoError(t, os.WriteFile(path, []byte(lines[0]+"00000000"+lines[1][8:]+lines[2]), 0o600))
	_, err := OpenFile(path)
	require.EqualError(t, err, fmt.Sprintf("quota: file store %q: line 2 is corrupt: the checksum does not match: restore the file, or delete it to start from zero", path))
}

func TestCallersShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &faultyDisk{}
		s, err := openFile(filepath.Join(t.TempDir(), "quota"), d, rewriteOver)
		require.NoError(t, err)
		d.syncing = make(chan chan struct{})
		before := d.syncs.Load()
		var wg sync.WaitGroup
		wg.Go(func() { spend(t, s, "first", 1) })
		finish := <-d.syncing // the first is being synced
		for range 50 {
			wg.Go(func() { spend(t, s, "a", 1) })
		}
		synctest.Wait()
		assert.EqualValues(t, 50, used(t, s, "a"), "counted, and waiting")
		close(finish)
		close(<-d.syncing)
		wg.Wait()
		assert.EqualValues(t, 2, d.syncs.Load()-before, "50 calls, one sync")
		require.NoError(t, s.Close())
	})
}

// Close lets those finish whose count is being written.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &faultyDisk{}
		path := filepath.Join(t.TempDir(), "quota")
		s, err := openFile(path, d, rewriteOver)
		require.NoError(t, err)
		d.syncing = make(chan chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { spend(t, s, "a", 1) })
		first := <-d.syncing
		wg.Go(func() { spend(t, s, "a", 2) })
		synctest.Wait()
		closed := false
		wg.Go(func() { assert.NoError(t, s.Close()); closed = true })
		synctest.Wait()
		assert.False(t, closed)
		_, _, err = s.Spend(t.Context(), tally("a"), 1)
		require.ErrorIs(t, err, os.ErrClosed)
		close(first)
		close(<-d.syncing)
		wg.Wait()
		assert.EqualValues(t, 3, used(t, open(t, path), "a"))
	})
}
