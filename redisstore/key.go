package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/politehttp/polite/limiter"
)

// maxKey is how long a key may be, in bytes, to stand in the name of a Redis key
// as it is. Of a longer one a hash stands there.
const maxKey = 128

// keyOf returns the name of the Redis key that holds what is known of a charge's
// key under its limit. No two limits and keys have one name. What stands between
// the braces decides which server of a cluster keeps it, and there are no other
// braces in it.
func (s *Store) keyOf(c *limiter.Charge, tag string) string {
	name, key := escaped(c.Limit.Name()), keyPart(c.Key)
	var b strings.Builder
	b.Grow(len(s.prefix()) + len(tag) + len(name) + len(key) + 7)
	b.WriteString(s.prefix())
	b.WriteString(":l{")
	b.WriteString(tag)
	b.WriteString("}:")
	b.WriteString(name)
	b.WriteByte(':')
	b.WriteString(key)
	return b.String()
}

func keyPart(key string) string {
	if len(key) <= maxKey {
		return escaped(key)
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// escaped writes what has a meaning in the name of a Redis key as %XX.
func escaped(s string) string {
	if !strings.ContainsAny(s, "%:{}#") {
		return s
	}
	return escaper.Replace(s)
}

var escaper = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D", "#", "%23")
