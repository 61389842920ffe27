package pacer

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/headerparse"
)

func TestTook(t *testing.T) {
	var k took
	assert.Zero(t, k.most(), "nothing is known")
	for range 100 {
		k.add(int64(100 * time.Millisecond))
	}
	assert.Equal(t, 100*time.Millisecond, k.most())
	for i := range 200 { // 50 and 150 in turns: mean 100, deviation 50
		k.add(int64(time.Duration(50+100*(i%2)) * time.Millisecond))
	}
	assert.InDelta(t, float64(200*time.Millisecond), float64(k.most()), float64(10*time.Millisecond))
	k.add(-1)
	assert.Positive(t, k.most())
}

// A call that would leave too late for its answer is refused at once, but not
// for a wait of up to half of its time.
func TestTookLeavesTimeForTheAnswer(t *testing.T) {
	for _, c := range []struct {
		took  time.Duration
		leave int // of calls in a row, 100 ms apart, that have a second
	}{
		{0, 10}, {300 * time.Millisecond, 7}, {450 * time.Millisecond, 6}, {10 * time.Second, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &Pacer{Rate: Per(10, time.Second), Burst: 1}
			release, err := p.Wait(t.Context(), "k", 0) // the key is known from now on
			require.NoError(t, err)
			release()
			if c.took > 0 {
				p.Took("k", c.took)
			}
			p.Took("another", time.Hour)
			assert.Equal(t, c.took, p.Takes("k"))
			assert.Zero(t, p.Takes("another"), "of keys that never called nothing is kept")
			began, left := time.Now(), 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			results := make(chan error)
			for range 12 {
				go func() {
					_, err := p.Wait(ctx, "k", 1)
					results <- err
				}()
				synctest.Wait()
			}
			for range 12 {
				err := <-results
				if err == nil {
					left++
					continue
				}
				var late *WaitError
				require.True(t, errors.As(err, &late), "%v", err)
				assert.Zero(t, time.Since(began), "refused at once")
			}
			assert.Equal(t, c.leave, left, "took %v", c.took)
		})
	}
}

// Who gets its turn too late is refused then, and the next one goes.
func TestTookAtTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{MaxInFlight: 1}
		release, err := p.Wait(t.Context(), "k", 1)
		require.NoError(t, err)
		p.Took("k", 300*time.Millisecond)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		results := make(chan error)
		go func() {
			_, err := p.Wait(short, "k", 1)
			results <- err
		}()
		synctest.Wait()
		go func() {
			_, err := p.Wait(t.Context(), "k", 1)
			results <- err
		}()
		time.Sleep(900 * time.Millisecond)
		release()
		var late *WaitError
		require.ErrorAs(t, <-results, &late)
		require.NoError(t, <-results)
		assert.Equal(t, 900*time.Millisecond, time.Since(began))
	})
}

// Waiting alone is not enough for who is refused again as soon as all who waited
// have left.
func TestRefusedAgainAfterAHold(t *testing.T) {
	busy := headerparse.Parse(http.StatusServiceUnavailable, http.Header{"Retry-After": {"1"}}, time.Time{})
	for _, c := range []struct {
		name  string
		pause time.Duration // between the end of the first hold and the second refusal
		paced bool
	}{
		{"soon", time.Second, true}, {"later", 12 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Pacer{rand: func() float64 { return 0 }}
				send := func(n int) {
					for range n {
						release, err := p.Wait(t.Context(), "k", 1)
						require.NoError(t, err)
						release()
					}
				}
				send(100)
				p.Observe("k", busy, time.Time{})
				send(1) // waits for the end of the hold
				p.Answered("k")
				time.Sleep(c.pause)
				p.Observe("k", busy, time.Time{})
				send(1)
				began := time.Now()
				send(10)
				assert.Equal(t, c.paced, time.Since(began) > time.Second, "%v", time.Since(began))
			})
		})
	}
}
