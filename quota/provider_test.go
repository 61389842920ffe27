package quota

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
	"github.com/politehttp/polite/observe"
)

const unknown = headerparse.Unknown

func TestTheProvidersCountCorrectsOurs(t *testing.T) {
	const day = 24 * time.Hour
	daily := func(remaining float64) headerparse.Limit {
		return headerparse.Limit{Name: "daily", Quota: 100, Remaining: remaining, Reset: unknown, Window: day}
	}
	with := func(l headerparse.Limit, change func(*headerparse.Limit)) headerparse.Limit { change(&l); return l }
	minute := headerparse.Limit{Name: "minute", Remaining: 3, Reset: unknown, Window: time.Minute}
	for _, c := range []struct {
		about  string
		period Period
		into   time.Duration // of the day, Monday 2000-05-01 being the first of a month
		limits []headerparse.Limit
		left   int64 // of 100, 20 of them spent by us
	}{
		{"others spend too", Day, time.Hour, []headerparse.Limit{minute, daily(50)}, 50},
		{"nothing is left", Day, time.Hour, []headerparse.Limit{daily(0)}, 0},
		{"the provider has more left", Day, time.Hour, []headerparse.Limit{daily(90)}, 80},
		{"a larger limit than ours", Day, time.Hour, []headerparse.Limit{daily(1e300)}, 80},
		{"a fraction", Day, time.Hour, []headerparse.Limit{daily(50.9)}, 50},
		{"nothing told", Day, time.Hour, []headerparse.Limit{daily(unknown)}, 80},
		{"no number", Day, time.Hour, []headerparse.Limit{daily(math.NaN())}, 80},
		{"no limits", Day, time.Hour, nil, 80},
		{"by window alone", Day, time.Hour, []headerparse.Limit{minute, with(daily(50), func(l *headerparse.Limit) { l.Name = "x" })}, 50},
		{"by window, but two of them", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Name = "x" }), with(daily(40), func(l *headerparse.Limit) { l.Name = "y" })}, 80},
		{"by name among two", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Name = "x" }), daily(40)}, 40},
		{"by window, in another unit", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Name, l.Unit = "x", "tokens" })}, 80},
		{"by name, in its unit", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Unit = "segments" })}, 50},
		{"a percentage", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Unit = "percent" })}, 80},
		{"by name, window not told", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Window = unknown })}, 50},
		{"by name, another window", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Window = time.Minute })}, 80},
		{"reset at our midnight", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Reset = 23 * time.Hour })}, 50},
		{"reset somewhat later", Day, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Reset = 25 * time.Hour })}, 50},
		{"reset too soon", Day, time.Hour, []headerparse.Limit{with(daily(0), func(l *headerparse.Limit) { l.Reset = 10 * time.Minute })}, 80},
		{"reset in days", Day, time.Hour, []headerparse.Limit{with(daily(0), func(l *headerparse.Limit) { l.Reset = 3 * day })}, 80},
		{"yesterday's answer, late", Day, time.Second, []headerparse.Limit{with(daily(0), func(l *headerparse.Limit) { l.Reset = time.Second })}, 80},
		{"perhaps yesterday's", Day, time.Minute - 1, []headerparse.Limit{daily(0)}, 80},
		{"surely today's", Day, time.Minute, []headerparse.Limit{daily(0)}, 0},
		{"today's, as its reset says", Day, time.Second, []headerparse.Limit{with(daily(0), func(l *headerparse.Limit) { l.Reset = day - time.Second })}, 0},
		{"a week", Week, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Window = 7 * day })}, 50},
		{"a month of 30 days", Month, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Window = 30 * day })}, 50},
		{"a month of 32", Month, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Window = 32 * day })}, 80},
		{"6 hours", Period(6 * time.Hour), time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Window = 6 * time.Hour })}, 50},
		{"a balance", 0, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Window = unknown })}, 50},
		{"no balance: it resets", 0, time.Hour, []headerparse.Limit{with(daily(50), func(l *headerparse.Limit) { l.Window, l.Reset = unknown, time.Hour })}, 80},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &Quota{Name: "daily", Limit: 100, Period: c.period}
				time.Sleep(time.Until(time.Date(2000, 5, 1, 0, 0, 0, 0, time.UTC).Add(c.into)))
				_, err := q.Spend(t.Context(), "a", 20)
				require.NoError(t, err)
				_, err = q.Spend(t.Context(), "b", 1)
				require.NoError(t, err)
				q.Observe(t.Context(), "a", headerparse.Signal{Limits: c.limits}, time.Time{})
				q.Observe(t.Context(), "a", headerparse.Signal{Limits: c.limits}, time.Now())
				left := int64(0)
				if l, err := q.Spend(t.Context(), "a", 0); err == nil {
					left = l.Left
				}
				assert.Equal(t, c.left, left)
				l, err := q.Spend(t.Context(), "b", 0)
				require.NoError(t, err)
				assert.EqualValues(t, 99, l.Left)
			})
		})
	}
}

// farStore counts how often it is asked.
type farStore struct {
	Memory
	settled int
}

func (s *farStore) Settle(ctx context.Context, t Tally, delta, atLeast int64) (int64, error) {
	s.settled++
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return s.Memory.Settle(ctx, t, delta, atLeast)
}

func TestWhatIsKnownIsNotAskedForAgain(t *testing.T) {
	s := &farStore{}
	lows := 0
	q := &Quota{Name: "q", Limit: 100, Store: s, OnLow: func(Left) { lows++ }}
	tell := func(remaining float64) {
		q.Observe(t.Context(), "a", headerparse.Signal{Limits: []headerparse.Limit{{Name: "q", Remaining: remaining, Reset: unknown, Window: unknown}}}, time.Time{})
	}
	l, err := q.Spend(t.Context(), "a", 10)
	require.NoError(t, err)
	tell(90)
	tell(95)
	assert.Zero(t, s.settled)
	tell(80)
	tell(80)
	assert.Equal(t, 1, s.settled)
	require.NoError(t, q.Refund(t.Context(), "a", l))
	tell(80)
	assert.Equal(t, 3, s.settled, "what was given back may have to be corrected")
	assert.Zero(t, lows)
	tell(7)
	tell(6)
	assert.Equal(t, 1, lows)
}

// What a store may take for a reason not to give back is kept from it.
func TestRefundsOutliveTheirCallButNotTheirPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &farStore{}
		q := &Quota{Name: "q", Limit: 100, Period: Day, Store: s}
		ctx, cancel := context.WithCancel(t.Context())
		l, err := q.Spend(ctx, "a", 10)
		require.NoError(t, err)
		cancel()
		require.NoError(t, q.Refund(ctx, "a", l))
		assert.Equal(t, 1, s.settled)
		time.Sleep(24 * time.Hour)
		require.NoError(t, q.Settle(t.Context(), "a", l, 50))
		assert.Equal(t, 1, s.settled, "the store is not even asked")
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	q := &Quota{Name: "q", Limit: 10, Store: &farStore{}, MaxKeys: 20, Period: Month}
	ctx := observe.With(t.Context(), &observe.Hooks{})
	for i := range 1000 {
		_, err := q.Spend(ctx, string(rune('A'+i)), 9)
		require.NoError(t, err)
	}
	assert.Len(t, q.levels.byKey, 20)
	own := &Quota{Limit: 10, MaxKeys: 20}
	for i := range 20 {
		_, err := own.Spend(ctx, string(rune('A'+i)), 1)
		require.NoError(t, err)
	}
	var full *StoreError
	_, err := own.Spend(ctx, "another", 1)
	require.ErrorAs(t, err, &full)
}
