package rttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// C7: "RoundTrip must always close the body, including on errors, but depending
// on the implementation may do so in a separate goroutine even after RoundTrip
// returns." One that refuses by itself must do it too, for no base will.
func bodyIsClosedOnce(t *trial) {
	call := func(t *trial, rt http.RoundTripper, u *uploads) {
		resp, _ := rt.RoundTrip(t.put(u))
		end(resp)
		synctest.Wait()
		assert.EqualValues(t, 1, u.first().closes.Load(), "closes of the request's body")
	}
	one := func(name string, u *uploads, st ...step) {
		t.in(name, func(t *trial) { call(t, t.wrap(newScript(st...)), u) })
	}
	boom := errors.New("boom")
	unread := answer(413, "too large")
	unread.unread = true
	one("200", &uploads{}, answer(200, "ok"))
	one("answered unread", &uploads{}, unread)
	one("503, 200", &uploads{}, busy(), answer(200, "ok"))
	one("503 always", &uploads{}, busy())
	one("dial fails", &uploads{}, fails(refused()))
	one("dial fails, 200", &uploads{}, fails(refused()), answer(200, "ok"))
	one("an error that nobody knows", &uploads{}, fails(boom))
	one("GetBody fails after a 503", &uploads{fail: boom}, busy(), answer(200, "ok"))
	one("GetBody fails after a dial", &uploads{fail: boom}, fails(refused()), answer(200, "ok"))
	t.in("over the wire", func(t *trial) {
		_, rt := t.serve(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		call(t, rt, &uploads{})
	})
	t.in("cancelled before", func(t *trial) {
		ctx, cancel := t.context()
		cancel(nil)
		u := &uploads{}
		base := newScript(answer(200, "ok"))
		resp, err := t.wrap(base).RoundTrip(t.put(u).WithContext(ctx))
		end(resp)
		require.Error(t, err)
		synctest.Wait()
		assert.EqualValues(t, 1, u.first().closes.Load(), "closes of the request's body")
	})
	for _, v := range t.waiting {
		t.in("cancelled in the wait of "+v.name, func(t *trial) {
			ctx, cancel := t.context()
			u := &uploads{}
			time.AfterFunc(time.Second, func() { cancel(nil) })
			resp, err := v.wrap(newScript(answer(200, "ok"))).RoundTrip(t.put(u).WithContext(ctx))
			end(resp)
			require.Error(t, err)
			synctest.Wait()
			assert.EqualValues(t, 1, u.first().closes.Load(), "closes of the request's body")
		})
	}
	t.refusals(func(t *trial, rt http.RoundTripper, _ *script) { call(t, rt, &uploads{}) })
}

// C8: a body that GetBody made is the transport's own: if its attempt is never
// sent, nobody else closes it.
func copiesAreClosed(t *trial) {
	all := func(t *trial, u *uploads) {
		synctest.Wait()
		for i, b := range u.bodies() {
			assert.Positive(t, b.closes.Load(), "closes of body %d of %d", i+1, len(u.bodies()))
		}
	}
	for name, st := range map[string][]step{
		"200":             {answer(200, "ok")},
		"503, 200":        {busy(), answer(200, "ok")},
		"503 always":      {busy()},
		"dial fails":      {fails(refused())},
		"503, dial fails": {busy(), fails(refused())},
	} {
		t.in(name, func(t *trial) {
			u := &uploads{}
			resp, _ := t.wrap(newScript(st...)).RoundTrip(t.put(u))
			end(resp)
			all(t, u)
		})
	}
	long := answer(503, "busy", "Retry-After", "60")
	t.in("cancelled in the wait", func(t *trial) {
		ctx, cancel := t.context()
		time.AfterFunc(time.Second, func() { cancel(nil) })
		u := &uploads{}
		resp, _ := t.wrap(newScript(long)).RoundTrip(t.put(u).WithContext(ctx))
		end(resp)
		all(t, u)
	})
	t.in("no time for the wait", func(t *trial) {
		ctx, cancel := context.WithTimeout(t.root, 10*time.Second)
		defer cancel()
		u := &uploads{}
		resp, _ := t.wrap(newScript(long)).RoundTrip(t.put(u).WithContext(ctx))
		end(resp)
		all(t, u)
	})
}

// C9: a server may answer before it has read the request, and the base goes on
// reading the body meanwhile, even after RoundTrip returned. So no other attempt
// may read, rewind or seek it: the next one gets a body of its own.
func bodyIsNotShared(t *trial) {
	data := strings.Repeat("0123456789abcdef", 4<<20/16)
	type sum = [sha256.Size]byte
	serve := func(t *trial) (rt http.RoundTripper, arrived func() []sum) {
		var mu sync.Mutex
		var sums []sum // by attempt; of the early answer, nothing
		_, rt = t.serve(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			n := len(sums)
			sums = append(sums, sum{})
			mu.Unlock()
			if n == 0 && t.retrying() {
				_, _ = io.CopyN(io.Discard, r.Body, 100_000)
				w.WriteHeader(http.StatusServiceUnavailable) // with megabytes still to come
				return
			}
			b, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			sums[n] = sha256.Sum256(b)
		})
		return rt, func() []sum {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(sums)
		}
	}
	t.in("with GetBody", func(t *trial) {
		rt, arrived := serve(t)
		u := &uploads{data: data, pause: 10 * time.Millisecond}
		status, _ := t.fetch(rt, t.put(u))
		synctest.Wait()
		sums := arrived()
		assert.Equal(t, 200, status)
		assert.Equal(t, sha256.Sum256([]byte(data)), sums[len(sums)-1], "the body that arrived is another")
		for i, b := range u.bodies() {
			assert.Zero(t, b.seeks.Load(), "seeks in body %d", i+1)
		}
		if t.retrying() {
			assert.Len(t, u.bodies(), 2, "bodies of two attempts")
		}
	})
	if !t.retrying() {
		return
	}
	t.in("without GetBody", func(t *trial) {
		rt, arrived := serve(t)
		u := &uploads{data: data, pause: 10 * time.Millisecond}
		r := t.put(u)
		r.GetBody = nil
		status, _ := t.fetch(rt, r)
		synctest.Wait()
		sums := arrived()
		assert.Equal(t, 503, status, "a body that cannot be had again is not sent again")
		assert.Zero(t, u.first().seeks.Load(), "seeks in the body")
		assert.Len(t, sums, 1, "attempts")
	})
}
