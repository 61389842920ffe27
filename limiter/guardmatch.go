package limiter

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
)

// A matcher is the Pattern of one rule, ready to be asked. Patterns of
// different rules may repeat and overlap, so each has a matcher of its own: in
// one ServeMux for all, the most specific would hide the others.
//
// What a request can be spelled like in more ways than one is taken so that no
// spelling escapes: a path is looked at in its clean form, a host in lower
// case, and HEAD is GET. A path that the pattern's mux would redirect to the
// pattern matches it.
type matcher struct {
	method string // "": any
	all    bool   // every path of every host

	// The mux of the pattern alone has the last word. It takes a few hundred
	// nanoseconds, so a plain path of a pattern without host is compared here.
	mux    *http.ServeMux
	direct bool
	segs   []string // "": a wildcard
	end    ending
}

// An ending is what may follow the segments of a pattern.
type ending uint8

const (
	nothing  ending = iota
	aSlash          // {$}
	anything        // a slash at the end, or {name...}
)

// catchAll is registered beside the rule's pattern: without it ServeMux would
// list the methods that a path has, for every request that does not match.
const catchAll = "/"

func newMatcher(pattern string) (matcher, error) {
	if pattern == "" {
		return matcher{all: true}, nil
	}
	if err := tryPattern(http.NewServeMux(), pattern); err != nil {
		return matcher{}, err
	}
	method, rest := "", pattern
	if space := strings.IndexAny(pattern, " \t"); space >= 0 {
		method, rest = pattern[:space], strings.TrimLeft(pattern[space:], " \t")
	}
	slash := strings.IndexByte(rest, '/')
	host, p := rest[:slash], rest[slash:]
	switch {
	case method != strings.ToUpper(method):
		return matcher{}, errors.New("methods are written in upper case")
	case host != strings.ToLower(host):
		return matcher{}, errors.New("hosts are written in lower case")
	case portless(host) != host && method != http.MethodConnect:
		return matcher{}, fmt.Errorf("hosts are written without a port, for http.ServeMux takes it from the request's host, so that no request would match: %s", portless(host))
	case !isClean(p) && path.Clean(p) != strings.TrimSuffix(p, "/"):
		return matcher{}, fmt.Errorf("the path is written %s", path.Clean(p))
	case rest == catchAll:
		return matcher{method: method, all: true}, nil
	}
	m := matcher{method: method, mux: http.NewServeMux()}
	if err := tryPattern(m.mux, rest); err != nil {
		return matcher{}, err
	}
	_ = tryPattern(m.mux, catchAll) // conflicts only with what matches everything anyway
	if m.direct = host == "" && !strings.Contains(p, "%"); m.direct {
		m.split(p)
	}
	return m, nil
}

// portless is a host as ServeMux compares it, unless the method is CONNECT.
func portless(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// split fills in the segments of a path that ServeMux takes for a pattern.
func (m *matcher) split(p string) {
	for _, seg := range strings.Split(p[1:], "/") {
		switch {
		case seg == "" || strings.HasSuffix(seg, "...}"):
			m.end = anything
		case seg == "{$}":
			m.end = aSlash
		case seg[0] == '{':
			m.segs = append(m.segs, "")
		default:
			m.segs = append(m.segs, seg)
		}
	}
}

// tryPattern turns the panic with which ServeMux refuses a pattern into an
// error.
func tryPattern(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

func (m *matcher) matches(r *http.Request) bool {
	if m.method != "" && m.method != r.Method && (m.method != http.MethodGet || r.Method != http.MethodHead) {
		return false
	}
	if m.all {
		return true
	}
	if m.direct && r.Method != http.MethodConnect {
		p := r.URL.Path
		if !isClean(p) {
			p = path.Clean("/" + p)
		}
		if m.compare(p) {
			return true
		}
		if r.URL.RawPath == "" { // nothing is escaped that could be read otherwise
			return false
		}
	}
	seen := http.Request{Method: r.Method, Host: strings.ToLower(r.Host), URL: r.URL}
	_, pattern := m.mux.Handler(&seen)
	return pattern != "" && pattern != catchAll
}

// compare reports whether a clean path matches, with or without the slash that
// the pattern wants at its end.
func (m *matcher) compare(p string) bool {
	for _, want := range m.segs {
		if p == "" {
			return false
		}
		seg := p[1:]
		if i := strings.IndexByte(seg, '/'); i >= 0 {
			seg, p = seg[:i], seg[i:]
		} else {
			p = ""
		}
		if seg != want && want != "" || seg == "" {
			return false
		}
	}
	switch m.end {
	case anything:
		return true
	case aSlash:
		return p == "" || p == "/"
	}
	return p == ""
}

// isClean reports whether a path certainly is as path.Clean would have it, but
// for a slash at its end.
func isClean(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := 1; i < len(p); i++ { // short, so faster than two searches
		if p[i-1] == '/' && (p[i] == '/' || p[i] == '.') {
			return false
		}
	}
	return true
}
