package polite

import (
	"maps"
	"net/http"
)

// withKey copies the header, for the caller's must not be written to.
func (c *call) withKey(h http.Header, name, key string) http.Header {
	with := maps.Clone(h)
	if with == nil {
		with = http.Header{}
	}
	if len(c.values) == 0 {
		c.values = make([]string, 8)
	}
	value := c.values[:1:1]
	c.values = c.values[1:]
	value[0] = key
	with[name] = value
	return with
}
