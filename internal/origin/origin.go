// Package origin names where a request goes: scheme://host:port, the key that
// circuits, budgets and, unless told otherwise, pace and quota count against.
package origin

import (
	"net/url"
	"strings"
	"sync/atomic"
)

// Of returns scheme://host:port in lower case, with the scheme's default port
// written out, so that http://a and http://A:80 are one. A nil u is "".
func Of(u *url.URL) string {
	if u == nil {
		return ""
	}
	host := strings.ToLower(u.Host)
	if u.Port() == "" {
		host = strings.TrimSuffix(host, ":")
		switch strings.ToLower(u.Scheme) {
		case "http":
			host += ":80"
		case "https":
			host += ":443"
		}
	}
	return strings.ToLower(u.Scheme) + "://" + host
}

// Cache remembers the last name it made, for most clients call one host. Its
// zero value is ready.
type Cache struct{ last atomic.Pointer[entry] }

type entry struct{ scheme, host, origin string }

// Of is [Of] without an allocation if the URL has the scheme and host of the
// last one.
func (c *Cache) Of(u *url.URL) string {
	if u == nil {
		return ""
	}
	if e := c.last.Load(); e != nil && e.host == u.Host && e.scheme == u.Scheme {
		return e.origin
	}
	e := &entry{u.Scheme, u.Host, Of(u)}
	c.last.Store(e)
	return e.origin
}
