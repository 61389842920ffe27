package limiter

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMatcher(t *testing.T) {
	for _, test := range []struct {
		pattern, method, target string
		want                    bool
	}{
		{"", "GET", "/", true},
		{"", "OPTIONS", "*", true},
		{"", "CONNECT", "example.com:443", true},
		{"/", "GET", "/any/where", true},
		{"GET /", "POST", "/any/where", false},
		{"/login", "POST", "/login", true},
		{"/login", "POST", "/login/", false},
		{"/login", "POST", "/login2", false},
		{"/login", "POST", "/", false},
		{"/login", "POST", "//login", true},
		{"/login", "POST", "/./login", true},
		{"/login", "POST", "/x/../login", true},
		{"/login", "POST", "/x/%2e%2e/login", true},
		{"/login", "POST", "/log%69n", true},
		{"/login", "POST", "/login?x=1", true},
		{"/.hidden", "GET", "/.hidden", true},
		{"POST /login", "POST", "/login", true},
		{"POST /login", "GET", "/login", false},
		{"GET /login", "HEAD", "/login", true},
		{"POST /login", "HEAD", "/login", false},
		{"POST  /login", "POST", "/login", true},
		{"/files/", "GET", "/files/a/b", true},
		{"/files/", "GET", "/files", true}, // would be redirected there
		{"/files/", "GET", "/filesystem", false},
		{"/files/{$}", "GET", "/files/", true},
		{"/files/{$}", "GET", "/files/a", false},
		{"/{$}", "GET", "/", true},
		{"/{$}", "GET", "/a", false},
		{"/{all...}", "GET", "/a/b", true},
		{"GET /users/{id}", "GET", "/users/7", true},
		{"GET /users/{id}", "HEAD", "/users/7", true},
		{"GET /users/{id}", "POST", "/users/7", false},
		{"GET /users/{id}", "GET", "/users/7/posts", false},
		{"GET /users/{id}", "GET", "/users/a%2Fb", true},
		{"GET /users/{id}", "GET", "//users/7", true},
		{"GET /users/{id}", "GET", "/users/", false},
		{"api.test/", "GET", "http://api.test/x", true},
		{"api.test/", "GET", "http://API.test:8080/x", true},
		{"api.test/", "GET", "http://www.test/x", false},
		{"api.test/login", "GET", "http://api.test/login", true},
		{"api.test/login", "GET", "http://api.test/logout", false},
		{"api.test/{all...}", "GET", "http://api.test/x", true},
		{"api.test/{all...}", "GET", "http://www.test/x", false},
		{"/caf%C3%A9", "GET", "/caf%C3%A9", true},
		{"/login", "POST", "/a%2Fb/../login", true}, // clean, whichever way it is read
		{"/files/", "GET", "/files/a%2F..%2F..%2Fx", true},
		{"/files/{name}/raw", "GET", "/files/a/raw", true},
		{"/files/{name}/raw", "GET", "/files//raw", false},
		{"/files/{name}/raw", "GET", "/files/a%2Fb/raw", true},
		{"/files/{name}/{rest...}", "GET", "/files/a", true},
		{"/files/{name}/{rest...}", "GET", "/files/", false},
		{"CONNECT example.com/", "CONNECT", "example.com:443", false},
	} {
		m, err := newMatcher(test.pattern)
		require.NoError(t, err, test.pattern)
		r := httptest.NewRequest(test.method, test.target, nil)
		assert.Equal(t, test.want, m.matches(r), "%q %s %s", test.pattern, test.method, test.target)
	}
}

// Of CONNECT with a path, as WebSockets over HTTP/2 send it, ServeMux compares the
// port too, so there a pattern may have one.
func TestMatcherConnectPort(t *testing.T) {
	m, err := newMatcher("CONNECT api.test:8080/chat")
	require.NoError(t, err)
	r := httptest.NewRequest("CONNECT", "/chat", nil)
	for host, want := range map[string]bool{"api.test:8080": true, "API.test:8080": true, "api.test": false} {
		r.Host = host
		assert.Equal(t, want, m.matches(r), host)
	}
}

func TestMatcherRefuses(t *testing.T) {
	for _, pattern := range []string{"login", "post /login", "API.test/", "/{", "/{a}/{a}", "GET", "/a/{x...}/b", " ", "//a", "/a/../b", "/a//"} {
		_, err := newMatcher(pattern)
		assert.Error(t, err, pattern)
	}
}

// As far as the mux that routes the request can tell, a rule with the pattern
// of a route sees every request of that route.
func FuzzMatcher(f *testing.F) {
	f.Add("/login", "/login")
	f.Add("/login", "//x/../login")
	f.Add("/users/{id}", "/users/%2e")
	f.Add("/files/", "/files/../files/x")
	f.Add("/a/{b}/c/", "/a//b/c")
	f.Add("/", "/a%2Fb/../login")
	f.Fuzz(func(t *testing.T, pattern, target string) {
		m, err := newMatcher(pattern)
		if err != nil || m.method != "" {
			return
		}
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" {
			return
		}
		routes := http.NewServeMux()
		if pattern == "" || tryPattern(routes, pattern) != nil {
			return
		}
		r := &http.Request{Method: "GET", Host: "api.test", URL: u}
		if _, routed := routes.Handler(r); routed != "" {
			assert.True(t, m.matches(r), "%q %q", pattern, target)
		}
	})
}

func BenchmarkMatcher(b *testing.B) {
	for _, pattern := range []string{"", "POST /login", "/login", "/users/{id}", "/users/", "api.test/"} {
		m, err := newMatcher(pattern)
		require.NoError(b, err)
		for _, path := range []string{"/users/17", "/login"} {
			r := httptest.NewRequest("GET", "http://api.test"+path, nil)
			b.Run(pattern+" "+path, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m.matches(r)
				}
			})
		}
	}
}
