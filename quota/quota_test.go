package quota_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/observe"
	"github.com/politehttp/polite/quota"
)

func TestSpendIsAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &quota.Quota{Name: "sms", Limit: 10, Period: quota.Day}
		l, err := q.Spend(t.Context(), "a", 7)
		require.NoError(t, err)
		midnight := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)
		assert.Equal(t, quota.Left{
			Quota: "sms", Key: "a", Limit: 10, Left: 3, Amount: 7,
			Starts: midnight.AddDate(0, 0, -1), Resets: midnight, SpentAt: l.SpentAt,
		}, l)

		_, err = q.Spend(t.Context(), "a", 4)
		var spent *quota.SpentError
		require.ErrorAs(t, err, &spent)
		assert.Equal(t, &quota.SpentError{Quota: "sms", Key: "a", Limit: 10, Asked: 4, Left: 3, Resets: midnight}, spent)
		assert.True(t, spent.Refused())
		assert.EqualError(t, err, `quota: "sms" is spent: 4 asked, 3 of 10 left, until 2000-01-02T00:00:00Z`)

		l, err = q.Spend(t.Context(), "a", 3)
		require.NoError(t, err, "what was refused took nothing")
		assert.Zero(t, l.Left)
		_, err = q.Spend(t.Context(), "a", 0)
		require.ErrorAs(t, err, &spent, "nothing is left to ask for")
		l, err = q.Spend(t.Context(), "b", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 10, l.Left, "another key has its own")

		time.Sleep(24*time.Hour - 1)
		_, err = q.Spend(t.Context(), "a", 1)
		require.ErrorAs(t, err, &spent, "the last instant of the day")
		time.Sleep(1 * time.Nanosecond)
		l, err = q.Spend(t.Context(), "a", 10)
		require.NoError(t, err, "the first of the next")
		assert.Zero(t, l.Left)
	})
}

func TestRefundAndSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		q := &quota.Quota{Name: "tokens", Limit: 100, Period: quota.Day}
		left := func() int64 {
			l, err := q.Spend(ctx, "a", 0)
			if err != nil {
				return 0
			}
			return l.Left
		}
		a, err := q.Spend(ctx, "a", 40)
		require.NoError(t, err)
		b, err := q.Spend(ctx, "a", 30)
		require.NoError(t, err)
		require.NoError(t, q.Refund(ctx, "a", a))
		assert.EqualValues(t, 70, left())
		require.NoError(t, q.Settle(ctx, "a", b, 10))
		assert.EqualValues(t, 90, left(), "it cost less")
		b.Amount = 10
		require.NoError(t, q.Settle(ctx, "a", b, 150))
		assert.EqualValues(t, 0, left(), "it cost more than there was")
		b.Amount = 150
		require.NoError(t, q.Settle(ctx, "a", b, 5))
		assert.EqualValues(t, 95, left(), "and that was remembered")
		for range 3 {
			require.NoError(t, q.Refund(ctx, "a", a), "giving back too often never goes below zero")
		}
		assert.EqualValues(t, 100, left())

		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = q.Spend(ended, "a", 1)
		require.ErrorIs(t, err, context.Canceled)
		c, err := q.Spend(ctx, "a", 60)
		require.NoError(t, err)
		require.NoError(t, q.Refund(ended, "a", c), "a refund outlives its call")
		assert.EqualValues(t, 100, left())

		old, err := q.Spend(ctx, "a", 60)
		require.NoError(t, err)
		time.Sleep(24 * time.Hour)
		_, err = q.Spend(ctx, "a", 20)
		require.NoError(t, err)
		require.NoError(t, q.Refund(ctx, "a", old))
		require.NoError(t, q.Settle(ctx, "a", old, 90))
		assert.EqualValues(t, 80, left(), "yesterday's amount changes nothing today")

		require.ErrorContains(t, q.Settle(ctx, "a", c, -1), "zero or more")
		require.ErrorContains(t, q.Refund(ctx, "b", c), "another key")
		require.ErrorContains(t, q.Refund(ctx, "a", quota.Left{Quota: "x", Key: "a", Amount: 3}), `"x"`)
	})
}

// A day of 25 hours is one period, and one of 23 another.
func TestDaysOfTheZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		q := &quota.Quota{Name: "sms", Limit: 1, Period: quota.Day, Location: berlin}
		for _, length := range []time.Duration{23, 25} {
			day := time.Date(2000, 3, 26, 0, 0, 0, 0, berlin)
			if length == 25 {
				day = time.Date(2000, 10, 29, 0, 0, 0, 0, berlin)
			}
			time.Sleep(time.Until(day))
			l, err := q.Spend(t.Context(), "", 1)
			require.NoError(t, err)
			assert.Equal(t, length*time.Hour, time.Until(l.Resets))
			time.Sleep(length*time.Hour - 1)
			_, err = q.Spend(t.Context(), "", 1)
			require.Error(t, err)
			time.Sleep(1 * time.Nanosecond)
			_, err = q.Spend(t.Context(), "", 1)
			require.NoError(t, err)
		}
	})
}

func TestForecast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, start := t.Context(), time.Now()
		q := &quota.Quota{Name: "day", Limit: 1000, Period: quota.Day}
		time.Sleep(2 * time.Hour)
		l, err := q.Spend(ctx, "", 200)
		require.NoError(t, err)
		assert.Equal(t, start.Add(10*time.Hour).UTC(), l.SpentAt.UTC(), "200 in 2 h: 800 more in 8 h")
		time.Sleep(22*time.Hour - 1)
		l, err = q.Spend(ctx, "", 1)
		require.NoError(t, err)
		assert.Zero(t, l.SpentAt, "lasts until midnight")
		l, err = q.Spend(ctx, "", 799)
		require.NoError(t, err)
		assert.Equal(t, time.Now(), l.SpentAt, "is spent now")

		prepaid := &quota.Quota{Name: "balance", Limit: 1000}
		l, err = prepaid.Spend(ctx, "", 100)
		require.NoError(t, err)
		assert.Zero(t, l.SpentAt, "no pace yet")
		time.Sleep(time.Hour)
		l, err = prepaid.Spend(ctx, "", 100)
		require.NoError(t, err)
		assert.Equal(t, 4*time.Hour, time.Until(l.SpentAt), "200 in 1 h: 800 in 4")
		assert.Zero(t, l.Resets)

		unbounded := &quota.Quota{Limit: -1, Period: quota.Day}
		l, err = unbounded.Spend(ctx, "", 1<<62)
		require.NoError(t, err)
		assert.Zero(t, l.SpentAt)
	})
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var low []int64
		var events []string
		ctx := observe.With(t.Context(), &observe.Hooks{
			QuotaLow:   func(_ context.Context, e observe.Quota) { events = append(events, "low "+e.Quota+" "+e.Key) },
			QuotaSpent: func(_ context.Context, e observe.Quota) { events = append(events, "spent "+e.Quota+" "+e.Key) },
		})
		q := &quota.Quota{Name: "q", Limit: 100, Period: quota.Month, OnLow: func(l quota.Left) { low = append(low, l.Left) }}
		spend := func(key string, n int64) { _, _ = q.Spend(ctx, key, n) }
		spend("a", 89)
		require.Empty(t, events)
		spend("a", 12)
		require.Equal(t, []string{"spent q a"}, events, "refused, yet not low")
		spend("a", 1)
		spend("a", 1)
		spend("a", 0)
		spend("b", 95)
		spend("a", 10)
		require.Equal(t, []string{"spent q a", "low q a", "low q b", "spent q a"}, events)
		require.Equal(t, []int64{10, 5}, low)

		events = nil
		time.Sleep(31 * 24 * time.Hour)
		spend("a", 90)
		require.Equal(t, []string{"low q a"}, events, "once for each period")

		events = nil
		never := &quota.Quota{Name: "never", Limit: 10, LowBelow: -1}
		_, err := never.Spend(ctx, "a", 10)
		require.NoError(t, err)
		half := &quota.Quota{Name: "half", Limit: 10, LowBelow: 0.5}
		_, err = half.Spend(ctx, "a", 5)
		require.NoError(t, err)
		require.Equal(t, []string{"low half a"}, events)
	})
}

func TestConfigurationAndAmounts(t *testing.T) {
	for want, q := range map[string]*quota.Quota{
		`quota: "q": Period is -4: want Day, Week, Month, a positive length, or zero for never`:  {Name: "q", Period: -4},
		`quota: Name is empty: a Store needs it to tell quotas apart`:                            {Store: &quota.Memory{}},
		`quota: "q": LowBelow is 1.5: want a share of at most 1, or a negative number for never`: {Name: "q", LowBelow: 1.5},
		`quota: "q": LowBelow is NaN: want a share of at most 1, or a negative number for never`: {Name: "q", LowBelow: math.NaN()},
		`quota: Name has 5000 bytes: at most 4096 are allowed`:                                   {Name: strings.Repeat("x", 5000)},
	} {
		require.EqualError(t, q.Check(), want)
		_, err := q.Spend(t.Context(), "", 1)
		require.EqualError(t, err, want)
	}

	q := &quota.Quota{Name: "q", Limit: math.MaxInt64}
	require.NoError(t, q.Check())
	_, err := q.Spend(t.Context(), "", -1)
	require.EqualError(t, err, `quota: "q": Spend of -1: an amount is zero or more`)
	_, err = q.Spend(t.Context(), strings.Repeat("k", 5000), 1)
	require.EqualError(t, err, `quota: "q": a key of 5000 bytes: at most 4096 are allowed`)
	_, err = q.Spend(t.Context(), "", math.MaxInt64-1)
	require.NoError(t, err)
	var spent *quota.SpentError
	_, err = q.Spend(t.Context(), "", 2)
	require.ErrorAs(t, err, &spent, "no overflow")
	l, err := q.Spend(t.Context(), "", 1)
	require.NoError(t, err)
	require.NoError(t, q.Settle(t.Context(), "", l, math.MaxInt64))
	_, err = q.Spend(t.Context(), "", 1)
	require.ErrorAs(t, err, &spent, "a settlement does not overflow either")

	_, err = (&quota.Quota{}).Spend(t.Context(), "", 1)
	require.ErrorAs(t, err, &spent, "a Limit of zero grants nothing")
	assert.EqualError(t, err, `quota: "": 1 asked, over its Limit of 0`)
}

type brokenStore struct{ err error }

func (s brokenStore) Spend(context.Context, quota.Tally, int64) (int64, bool, error) {
	return 0, true, s.err
}

func (s brokenStore) Settle(context.Context, quota.Tally, int64, int64) (int64, error) {
	return 0, s.err
}

func TestAStoreThatFailsRefuses(t *testing.T) {
	down := errors.New("connection refused")
	q := &quota.Quota{Name: "q", Limit: 5, Store: brokenStore{down}}
	_, err := q.Spend(t.Context(), "a", 1)
	var failed *quota.StoreError
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, down)
	assert.True(t, failed.Refused())
	assert.EqualError(t, err, `quota: "q": the store failed: connection refused`)
	require.ErrorIs(t, q.Refund(t.Context(), "a", quota.Left{Quota: "q", Key: "a", Amount: 1}), down)
}

// However the clients of one quota interleave, the granted never exceed the
// limit, and what comes back can be spent again.
func TestManySpenders(t *testing.T) {
	const limit = 1000
	q := &quota.Quota{Name: "q", Limit: limit, OnLow: func(quota.Left) {}}
	var kept atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for range 2000 {
				n := 1 + random.Int64N(9)
				l, err := q.Spend(context.Background(), "a", n)
				if err != nil {
					continue
				}
				if now := kept.Add(n); now > limit {
					t.Errorf("%d granted of %d", now, limit)
				}
				if random.IntN(3) > 0 {
					kept.Add(-n)
					if err := q.Refund(context.Background(), "a", l); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	l, err := q.Spend(context.Background(), "a", 0)
	left := int64(0)
	if err == nil {
		left = l.Left
	}
	assert.Equal(t, limit-kept.Load(), left)
}
