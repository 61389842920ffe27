package rttest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// C4: "RoundTrip should not attempt to handle higher-level protocol details
// such as redirects, authentication, or cookies."
func nothingIsAdded(t *trial) {
	base := newScript(
		answer(503, "busy", "Retry-After", "1", "Set-Cookie", "a=b"),
		answer(200, "ok", "Set-Cookie", "c=d", "Www-Authenticate", "Basic"),
	)
	rt := t.wrap(base)
	for range 3 {
		r := t.put(&uploads{})
		r.URL.User = url.UserPassword("user", "password") // an http.Client turns it into Authorization
		r.Header.Set("X-Mine", "1")
		t.fetch(rt, r)
	}
	require.GreaterOrEqual(t, base.calls(), 3)
	for i, a := range base.attempts() {
		for _, h := range t.adds {
			delete(a.header, textproto.CanonicalMIMEHeaderKey(h))
		}
		assert.Equal(t, http.Header{"X-Mine": {"1"}}, a.header, "header of attempt %d", i+1)
		assert.Equal(t, http.MethodPut, a.method, "method of attempt %d", i+1)
		assert.Equal(t, "provider.test", a.host, "host of attempt %d", i+1)
		assert.Equal(t, "hello", a.body, "body of attempt %d", i+1)
	}
}

// C5: "RoundTrip should not modify the request, except for consuming and
// closing the Request's Body."
func requestIsUntouched(t *trial) {
	call := func(t *trial, rt http.RoundTripper) {
		ctx, cancel := t.context()
		defer cancel(nil)
		u := &uploads{}
		r := t.put(u).WithContext(ctx)
		r.URL.User = url.UserPassword("user", "password")
		r.Header = http.Header{"X-Mine": {"1", "2"}, "Authorization": {"Bearer x"}}
		r.Trailer = http.Header{"X-Sum": nil}
		r.TransferEncoding = []string{"chunked"}
		r.Host = "virtual.test"
		before, body := snapshot(r), r.Body
		resp, _ := rt.RoundTrip(r)
		end(resp)
		for name, was := range before {
			assert.Equal(t, was, snapshot(r)[name], "Request.%s", name)
		}
		assert.Same(t, body, r.Body, "Request.Body")
		assert.Equal(t, ctx, r.Context(), "Request.Context()")
		if assert.NotNil(t, r.GetBody, "Request.GetBody") {
			made := len(u.bodies())
			_, _ = r.GetBody()
			assert.Len(t, u.bodies(), made+1, "Request.GetBody is another's")
		}
	}
	one := func(name string, st ...step) {
		t.in(name, func(t *trial) { call(t, t.wrap(newScript(st...))) })
	}
	one("200", answer(200, "ok"))
	one("404", answer(404, "no"))
	one("302", answer(302, "moved", "Location", "/elsewhere"))
	one("503, 200", busy(), answer(200, "ok"))
	one("503 always", busy())
	one("dial fails", fails(refused()))
	one("dial fails, 200", fails(refused()), answer(200, "ok"))
	t.refusals(func(t *trial, rt http.RoundTripper, _ *script) { call(t, rt) })
}

// snapshot copies the exported fields of r that can be compared, deeply.
func snapshot(r *http.Request) map[string]string {
	fields := make(map[string]string)
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "Body" || f.Type.Kind() == reflect.Func {
			continue
		}
		fields[f.Name] = fmt.Sprintf("%#v", v.Field(i).Interface()) // maps are printed in order of their keys
		if u, ok := v.Field(i).Interface().(*url.URL); ok {
			fields[f.Name] = fmt.Sprintf("%#v %v", *u, u)
		}
	}
	return fields
}

// C6: a request made by hand may lack what NewRequest gives it.
func nilFieldsDoNoHarm(t *trial) {
	t.in("nil Header", func(t *trial) {
		u := &uploads{}
		r := t.put(u)
		r.Header = nil
		resp, err := t.wrap(newScript(busy(), answer(200, "ok"))).RoundTrip(r)
		end(resp)
		assert.True(t, (resp == nil) != (err == nil), "response %v, error %v: want just one", resp, err)
		assert.Nil(t, r.Header, "Request.Header")
		assert.EqualValues(t, 1, u.first().closes.Load(), "closes of the request's body")
	})
	t.in("nil URL", func(t *trial) {
		u := &uploads{}
		r := t.put(u)
		r.URL = nil
		resp, err := t.wrap(newScript(answer(200, "ok"))).RoundTrip(r)
		end(resp)
		assert.Error(t, err)
		assert.Nil(t, resp)
		assert.EqualValues(t, 1, u.first().closes.Load(), "closes of the request's body")
	})
	t.in("empty URL", func(t *trial) {
		r := t.get()
		r.URL = new(url.URL)
		resp, err := t.wrap(newScript(answer(200, "ok"))).RoundTrip(r)
		end(resp)
		assert.True(t, (resp == nil) != (err == nil), "response %v, error %v: want just one", resp, err)
	})
}

// C16: Request.Trailer's values are set while the body is read, by whoever
// wrote it, in the map it has: a request copied with Clone has another.
func trailersOutliveRetry(t *trial) {
	for _, expect := range []string{"", "100-continue"} {
		t.in("Expect "+expect, func(t *trial) {
			var got []string
			_, rt := t.serve(func(w http.ResponseWriter, r *http.Request) {
				var body []byte
				// With Expect, the first answer comes before the body was asked for.
				if expect == "" || len(got) > 0 || t.noRetry {
					body, _ = io.ReadAll(r.Body)
				}
				got = append(got, fmt.Sprintf("%s %s %s", r.Header.Get("Expect"), body, r.Trailer.Get("X-Sum")))
				if len(got) == 1 && t.retrying() {
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			u := &uploads{}
			r := t.put(u)
			r.ContentLength = -1 // trailers need chunks
			r.Trailer = http.Header{"X-Sum": nil}
			u.atEnd = func(n int) { r.Trailer.Set("X-Sum", fmt.Sprint("sum of ", n)) }
			u.first().atEnd = func() { u.atEnd(1) }
			if expect != "" {
				r.Header.Set("Expect", expect)
			}
			status, _ := t.fetch(rt, r)
			assert.Equal(t, 200, status)
			want := []string{expect + " hello sum of 1", expect + " hello sum of 2"}
			switch {
			case t.noRetry:
				want = want[:1]
			case expect != "":
				want[0] = expect + "  "
				assert.Zero(t, u.first().bytes.Load(), "bytes of a body that nobody asked for")
			}
			assert.Equal(t, want, got, "attempts")
		})
	}
}

// C22: hooks of net/http/httptrace in the caller's context fire, once for each attempt.
func traceFires(t *trial) {
	attempts := 0
	_, rt := t.serve(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if attempts++; attempts == 1 && t.retrying() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var mu sync.Mutex
	fired := make(map[string]int)
	count := func(event string) {
		mu.Lock()
		defer mu.Unlock()
		fired[event]++
	}
	trace := &httptrace.ClientTrace{
		GetConn:              func(string) { count("GetConn") },
		GotConn:              func(httptrace.GotConnInfo) { count("GotConn") },
		WroteHeaders:         func() { count("WroteHeaders") },
		WroteRequest:         func(httptrace.WroteRequestInfo) { count("WroteRequest") },
		GotFirstResponseByte: func() { count("GotFirstResponseByte") },
	}
	r := t.put(&uploads{})
	t.fetch(rt, r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	mu.Lock()
	defer mu.Unlock()
	for _, event := range []string{"GetConn", "GotConn", "WroteHeaders", "WroteRequest", "GotFirstResponseByte"} {
		assert.Equal(t, attempts, fired[event], "%s, of %v", event, slices.Sorted(maps.Keys(fired)))
	}
}

// C24: Request.Method: "For client requests, an empty string means GET."
func emptyMethodIsGet(t *trial) {
	base := newScript(busy(), answer(200, "ok"))
	if t.noRetry {
		base = newScript(answer(200, "ok"))
	}
	r := t.get()
	r.Method = ""
	status, body := t.fetch(t.wrap(base), r)
	assert.Equal(t, 200, status)
	assert.Equal(t, "ok", body)
	assert.Empty(t, r.Method, "Request.Method")
	for _, a := range base.attempts() {
		assert.Contains(t, []string{"", http.MethodGet}, a.method)
	}
}
