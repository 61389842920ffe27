package quota

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stores runs a test on each Store of this package.
func stores(t *testing.T, test func(t *testing.T, s Store)) {
	t.Run("Memory", func(t *testing.T) { test(t, &Memory{MaxKeys: 100}) })
	t.Run("FileStore", func(t *testing.T) {
		s, err := openFile(filepath.Join(t.TempDir(), "quota"), &faultyDisk{}, 5000)
		require.NoError(t, err)
		s.MaxKeys = 100
		defer func() { require.NoError(t, s.Close()) }()
		test(t, s)
	})
}

// A store does what three lines of arithmetic do.
func TestStoresAgreeWithArithmetic(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		random := rand.New(rand.NewPCG(5, 6))
		var oracle [3]int64
		for range 2000 {
			k := random.IntN(len(oracle))
			ta, u := tally(string(rune('a'+k))), &oracle[k]
			ta.Limit = 50
			if random.IntN(2) == 0 {
				n := random.Int64N(20)
				fits := *u+max(1, n) <= 50
				if fits {
					*u += n
				}
				got, granted, err := s.Spend(t.Context(), ta, n)
				require.NoError(t, err)
				require.Equal(t, fits, granted)
				require.Equal(t, *u, got)
				continue
			}
			delta, atLeast := random.Int64N(40)-30, random.Int64N(80)-60
			*u = max(0, *u+delta, atLeast)
			got, err := s.Settle(t.Context(), ta, delta, atLeast)
			require.NoError(t, err)
			require.Equal(t, *u, got)
		}
	})
}

func TestStoresNeverOverflow(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		ta := tally("a")
		ta.Limit = math.MaxInt64
		spend := func(n int64) bool {
			_, granted, err := s.Spend(t.Context(), ta, n)
			require.NoError(t, err)
			return granted
		}
		require.True(t, spend(math.MaxInt64-1))
		require.False(t, spend(2))
		require.True(t, spend(1))
		require.False(t, spend(0))
		n, err := s.Settle(t.Context(), ta, math.MaxInt64, 0)
		require.NoError(t, err)
		require.EqualValues(t, math.MaxInt64, n)
		n, err = s.Settle(t.Context(), ta, math.MinInt64, 0)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestPeriodsAreCountedApart(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		today := tally("a")
		tomorrow := today
		tomorrow.Start, tomorrow.End = today.End, today.End.AddDate(0, 0, 1)
		spend(t, s, "a", 1000)
		_, granted, err := s.Spend(t.Context(), tomorrow, 10)
		require.NoError(t, err)
		require.True(t, granted)
		_, err = s.Settle(t.Context(), today, -900, 0)
		require.NoError(t, err)
		n, _, err := s.Spend(t.Context(), tomorrow, 0)
		require.NoError(t, err)
		assert.EqualValues(t, 10, n, "what is given back is yesterday's")
		assert.EqualValues(t, 100, used(t, s, "a"), "and the clock may step back")
	})
}

func TestFullStoresRefuseAndLoseNothing(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		key := func(i int) string { return string(rune('A' + i)) }
		for i := range 100 {
			ta := tally(key(i))
			if i < 30 { // these end an hour earlier
				ta.Start, ta.End = ta.Start.Add(-time.Hour), ta.End.Add(-25*time.Hour)
			}
			_, granted, err := s.Spend(t.Context(), ta, 5)
			require.NoError(t, err)
			require.True(t, granted)
		}
		for i := 100; i < 130; i++ {
			spend(t, s, key(i), 5) // those whose period has passed make room
		}
		_, _, err := s.Spend(t.Context(), tally("one more"), 1)
		require.ErrorContains(t, err, "100 counts are held, all of periods that still run, so a further key is refused: raise MaxKeys")
		_, err = s.Settle(t.Context(), tally("one more"), 1, 0)
		require.ErrorContains(t, err, "raise MaxKeys")
		for i := 30; i < 130; i++ {
			require.EqualValues(t, 5, used(t, s, key(i)))
			spend(t, s, key(i), 1)
		}
	})
}
