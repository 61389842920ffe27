package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

func counted(t testing.TB, name string, quota int64) *limiter.Limit {
	t.Helper()
	l, err := limiter.FixedWindow(name, quota, time.Hour, limiter.ToFirst)
	require.NoError(t, err)
	return l
}

func global(l *limiter.Limit) *limiter.Limit {
	l.Global = true
	return l
}

// tenantOf is for keys such as acme and acme/ada.
func tenantOf(c limiter.Charge) string {
	tenant, _, _ := strings.Cut(c.Key, "/")
	return tenant
}

// tagIn is what of a key a cluster looks at.
func tagIn(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, ok := strings.Cut(rest, "}")
	if !ok || tag == "" {
		return key
	}
	return tag
}

func TestTags(t *testing.T) {
	user, tenant, all := counted(t, "user", 1), counted(t, "tenant", 1), global(counted(t, "all", 1))
	slot := func(s *Store, c limiter.Charge) string { return tagIn(s.keyOf(&c, s.tagOf(&c))) }
	plain, tagged := &Store{}, &Store{Prefix: "app", Tag: tenantOf}

	assert.Equal(t, slot(plain, user.Charge("ada", 1)), slot(plain, tenant.Charge("acme", 1)))
	assert.NotEqual(t, slot(plain, user.Charge("ada", 1)), slot(plain, all.Charge("", 1)))
	assert.NotEqual(t, slot(plain, user.Charge("ada", 1)), slot(&Store{Prefix: "app"}, user.Charge("ada", 1)))

	assert.Equal(t, "acme", slot(tagged, user.Charge("acme/ada", 1)))
	assert.Equal(t, "acme", slot(tagged, tenant.Charge("acme", 1)))
	assert.Equal(t, "app:global", slot(tagged, all.Charge("acme", 1)))
	assert.Equal(t, "app", slot(tagged, user.Charge("", 1)), "no tag")
	for _, key := range []string{"}", "{}", "}{", "a}b", "{a}", "%7D"} {
		mine := user.Charge(key, 1)
		assert.Equal(t, escaped(key), slot(tagged, mine))
		assert.Equal(t, "polite", slot(plain, mine), "a key does not choose its server")
	}
	assert.Less(t, len(slot(tagged, user.Charge(strings.Repeat("x", 10_000), 1))), 100)
}

func TestCrossing(t *testing.T) {
	s := &Store{Tag: tenantOf, Client: fakeClient(func(context.Context) ([]string, error) {
		t.Error("something was sent")
		return nil, errors.New("no")
	})}
	charges := []limiter.Charge{
		counted(t, "all", 1).Charge("", 1), counted(t, "tenant", 1).Charge("acme", 1), counted(t, "user", 1).Charge("acme/ada", 1),
	}
	_, err := s.Take(t.Context(), charges...)
	require.ErrorContains(t, err, `redisstore: limits "all" and "tenant" in one decision, but Store.Tag says "polite" and "acme"`)
	require.ErrorContains(t, s.Refund(t.Context(), charges...), "Store.Tag")
	charges[0].Limit.Global = true
	charges[2].Key = "other/ada"
	_, err = s.Take(t.Context(), charges...)
	require.ErrorContains(t, err, `limits "tenant" and "user"`)
}

// steps counts the scripts that ran on a server.
func steps(server *redistest.Server, of func()) int {
	server.ResetCalls()
	of()
	calls := server.Calls()
	return calls["evalsha"] + calls["eval"]
}

func TestGlobal(t *testing.T) {
	server := redistest.Start(t)
	s := storeAt(t, server.Addr)
	s.NearKeys = 0
	user, tenant, all, every := counted(t, "user", 3), counted(t, "tenant", 100), global(counted(t, "all", 5)), global(counted(t, "every", 50))
	ada := []limiter.Charge{all.Charge("", 1), user.Charge("ada", 1), every.Charge("", 1), tenant.Charge("acme", 1)}
	bob := []limiter.Charge{all.Charge("", 1), user.Charge("bob", 1), every.Charge("", 1), tenant.Charge("acme", 1)}
	take := func(charges ...limiter.Charge) (d limiter.Decision) {
		t.Helper()
		d, err := s.Take(t.Context(), charges...)
		require.NoError(t, err)
		require.NoError(t, d.Degraded)
		return d
	}
	left := func(charges ...limiter.Charge) (all []int64) {
		for _, c := range charges {
			all = append(all, take(c.Limit.Charge(c.Key, 0)).Remaining)
		}
		return all
	}
	take(ada[1]) // the scripts are there
	require.NoError(t, s.Refund(t.Context(), ada[1]))

	assert.Equal(t, 2, steps(server, func() {
		d := take(ada...)
		require.True(t, d.Allowed)
		assert.Equal(t, user, d.By, "the tightest")
		require.Len(t, d.Each, 4)
		for i, want := range []int64{4, 2, 49, 99} {
			assert.Equal(t, ada[i].Limit, d.Each[i].By)
			assert.Equal(t, want, d.Each[i].Remaining)
		}
	}))
	assert.Equal(t, 1, steps(server, func() { take(all.Charge("", 0), every.Charge("", 0)) }), "Global limits alone")

	take(ada...)
	take(ada...)
	d := take(ada...)
	assert.False(t, d.Allowed)
	assert.Equal(t, user, d.By)
	assert.Equal(t, []int64{2, 0, 47, 97}, left(ada...), "who is refused by a limit of his own charges nothing to all")
	assert.Equal(t, []int64{2, 0, 47, 97}, []int64{d.Each[0].Remaining, d.Each[1].Remaining, d.Each[2].Remaining, d.Each[3].Remaining})
	assert.Zero(t, steps(server, func() { assert.Equal(t, user, take(ada...).By) }), "it is known here")

	take(bob...)
	take(bob...)
	assert.Equal(t, []int64{0, 1, 45, 95}, left(bob...))
	s.forgetAll()
	assert.Equal(t, 3, steps(server, func() {
		d = take(bob...)
		assert.False(t, d.Allowed)
		assert.Equal(t, all, d.By)
		assert.Equal(t, []int64{0, 1, 45, 95}, []int64{d.Each[0].Remaining, d.Each[1].Remaining, d.Each[2].Remaining, d.Each[3].Remaining})
		assert.True(t, d.Each[1].Allowed)
	}), "charged, refused, given back")
	assert.Equal(t, []int64{0, 1, 45, 95}, left(bob...))

	eve := []limiter.Charge{all.Charge("", 1), every.Charge("", 1), user.Charge("eve", 1)}
	assert.Equal(t, 1, steps(server, func() { assert.Equal(t, all, take(eve...).By) }), "what is known to be refused is not charged first")
	assert.Zero(t, steps(server, func() { assert.Equal(t, all, take(eve...).By) }))
	assert.Equal(t, []int64{0, 45, 3}, left(eve...))

	require.NoError(t, s.Refund(t.Context(), bob...))
	assert.Equal(t, []int64{1, 2, 46, 96}, left(bob...))
	assert.True(t, take(bob...).Allowed, "who was refused is not any more")
}

// forgetAll drops what is known of refusals.
func (s *Store) forgetAll() { s.near = shelf{} }

// Limits that are Global decide as others do, if nobody comes in between.
func TestGlobalDecidesAsOthers(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, 4))
			now := int64(1_800_000_000_000_000)
			s := storeAt(t, addr)
			s.now = func() int64 { return now }
			apart, together := everyKind(t), everyKind(t)
			for i, l := range apart {
				l.Global = i%2 == 1
			}
			s.Prefix = fmt.Sprint("apart", seed)
			other := storeAt(t, addr)
			other.Prefix, other.now = fmt.Sprint("together", seed), s.now
			for range times(300) {
				now += random.Int64N(400_000)
				var mine, theirs []limiter.Charge
				for range 2 + random.IntN(3) {
					i, key, cost := random.IntN(len(apart)), string(rune('a'+random.IntN(3))), random.Int64N(2)*(1+random.Int64N(2)*random.Int64N(4))
					mine, theirs = append(mine, apart[i].Charge(key, cost)), append(theirs, together[i].Charge(key, cost))
				}
				got, err := s.Take(t.Context(), mine...)
				require.NoError(t, err)
				want, err := other.Take(t.Context(), theirs...)
				require.NoError(t, err)
				require.Equal(t, plainly(want), plainly(got), "seed %d: %v", seed, mine)
			}
		}
	})
}

// Which limit is told to refuse longest, and until when, is of the costs that were
// asked, though a Global limit is only asked and not charged.
func TestGlobalAsksTheCost(t *testing.T) {
	redises(t, func(t *testing.T, addr string) {
		for _, isGlobal := range []bool{false, true} {
			s := storeAt(t, addr)
			own := made(limiter.TokenBucket("own", limiter.Per(1, time.Second), 5))
			all := made(limiter.SlidingLog("all", 10, time.Hour))
			all.Global = isGlobal
			s.Prefix = fmt.Sprint("global ", isGlobal)
			for _, c := range []limiter.Charge{all.Charge("", 6), own.Charge("u", 5)} {
				d, err := s.Take(t.Context(), c)
				require.NoError(t, err)
				require.True(t, d.Allowed)
			}
			d, err := s.Take(t.Context(), own.Charge("u", 5), all.Charge("", 5))
			require.NoError(t, err)
			require.Equal(t, all, d.By)
			require.Greater(t, d.RetryAfter, 59*time.Minute)
			require.False(t, d.Each[1].Allowed)
			require.Equal(t, d.RetryAfter, d.Each[1].RetryAfter)
			d, err = s.Take(t.Context(), all.Charge("", 4))
			require.NoError(t, err)
			require.True(t, d.Allowed, "nothing was charged")
		}
	})
}

func everyKind(t testing.TB) []*limiter.Limit {
	t.Helper()
	made := func(l *limiter.Limit, err error) *limiter.Limit {
		require.NoError(t, err)
		return l
	}
	return []*limiter.Limit{
		made(limiter.FixedWindow("window", 5, time.Second, limiter.ToFirst)),
		made(limiter.TokenBucket("bucket", limiter.Per(3, time.Second), 4)),
		made(limiter.SlidingLog("log", 6, 2*time.Second)),
		made(limiter.LeakyQueue("queue", limiter.Per(4, time.Second), 5)),
		made(limiter.SlidingBuckets("buckets", 7, 2*time.Second, 4)),
		made(limiter.SlidingCounter("counter", 5, time.Second)),
	}
}

// plainly is a decision with names for limits.
func plainly(d limiter.Decision) (lines []any) {
	for _, e := range append([]limiter.Decision{d}, d.Each...) {
		name := e.By.Name()
		e.By, e.Each = nil, nil
		lines = append(lines, name, e)
	}
	return lines
}

// halting is a Client that does something else for scripts on Global limits, or
// on the others.
type halting struct {
	Client
	global bool
	eval   func(ctx context.Context, next func() ([]string, error)) ([]string, error)
}

func (h *halting) Eval(ctx context.Context, s *Script, keys, args []string) ([]string, error) {
	next := func() ([]string, error) { return h.Client.Eval(ctx, s, keys, args) }
	if h.eval == nil || s != takeScript || strings.Contains(keys[0], globalTag) != h.global {
		return next()
	}
	return h.eval(ctx, next)
}

func TestGlobalDegraded(t *testing.T) {
	lost := errors.New("lost")
	fails := func(context.Context, func() ([]string, error)) ([]string, error) { return nil, lost }
	for _, test := range []struct {
		name        string
		globalFails bool
		own, global limiter.FailurePolicy
		spent       bool // the Global limit refuses
		allowed     bool
		degraded    bool
		left        [2]int64 // of the own and the Global limit, in Redis
	}{
		{name: "second step, Open", globalFails: true, allowed: true, degraded: true, left: [2]int64{9, 10}},
		{name: "second step, Closed", globalFails: true, global: limiter.Closed, degraded: true, left: [2]int64{10, 10}},
		{name: "second step, Local", globalFails: true, global: limiter.Local, allowed: true, degraded: true, left: [2]int64{9, 10}},
		{name: "first step, Open", allowed: true, degraded: true, left: [2]int64{10, 9}},
		{name: "first step, Closed", own: limiter.Closed, degraded: true, left: [2]int64{10, 10}},
		{name: "first step, Open, refused", spent: true, left: [2]int64{10, 0}},
		{name: "first step, Local, refused", own: limiter.Local, spent: true, left: [2]int64{10, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := storeAt(t, redistest.Mini(t).Addr())
			h := &halting{Client: s.Client, global: test.globalFails}
			s.Client, s.NearKeys = h, 0
			own, all := counted(t, "own", 10), global(counted(t, "all", 10))
			own.OnFailure, all.OnFailure = test.own, test.global
			ctx := t.Context()
			if test.spent {
				_, err := s.Take(ctx, all.Charge("", 10))
				require.NoError(t, err)
			}
			h.eval = fails
			d, err := s.Take(ctx, own.Charge("ada", 1), all.Charge("", 1))
			require.NoError(t, err)
			assert.Equal(t, test.allowed, d.Allowed)
			assert.Equal(t, test.degraded, d.Degraded != nil, "%v", d.Degraded)
			if test.own == limiter.Local {
				local, err := s.local.Take(ctx, own.Charge("ada", 0))
				require.NoError(t, err)
				assert.EqualValues(t, 10, local.Remaining, "given back here, too")
			}
			h.eval = nil
			for i, c := range []limiter.Charge{own.Charge("ada", 0), all.Charge("", 0)} {
				d, err := s.Take(ctx, c)
				require.NoError(t, err)
				require.NoError(t, d.Degraded)
				assert.Equal(t, test.left[i], d.Remaining, c.Limit.Name())
			}
		})
	}
}

// However many steps a decision takes, it has the time of one.
func TestGlobalInTime(t *testing.T) {
	s := storeAt(t, redistest.Mini(t).Addr())
	s.Timeout = 50 * time.Millisecond
	h := &halting{Client: s.Client}
	s.Client = h
	own, all := counted(t, "own", 10), global(counted(t, "all", 10))
	take := func(ctx context.Context) (limiter.Decision, time.Duration, error) {
		start := time.Now()
		d, err := s.Take(ctx, own.Charge("ada", 1), all.Charge("", 1))
		return d, time.Since(start), err
	}
	_, _, err := take(t.Context())
	require.NoError(t, err)
	slow := &halting{Client: h, global: true, eval: func(ctx context.Context, _ func() ([]string, error)) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	h.eval = func(_ context.Context, next func() ([]string, error)) ([]string, error) {
		time.Sleep(30 * time.Millisecond)
		return next()
	}
	s.circuit.client = slow

	d, took, err := take(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, d.Degraded, ErrTimeout)
	assert.True(t, d.Allowed)
	if !raced && long {
		assert.Less(t, took, 65*time.Millisecond)
	}

	all.OnFailure = limiter.Closed
	d, took, err = take(t.Context())
	require.NoError(t, err)
	assert.False(t, d.Allowed)
	if !raced && long {
		assert.Less(t, took, 65*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
	defer cancel()
	_, _, err = take(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.Eventually(t, func() bool {
		d, err := s.Take(t.Context(), own.Charge("ada", 0))
		require.NoError(t, err)
		return d.Remaining == 8 // what was refused, and what nobody waited for, is given back
	}, time.Second, time.Millisecond)
}
