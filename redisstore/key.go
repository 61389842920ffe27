package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// maxKey is how long a key may be, in bytes, to stand in the name of a Redis key
// as it is. Of a longer one a hash stands there.
const maxKey = 128

// appendKey appends the name of the Redis key that holds what is known of a key,
// of which part is the keyPart, under a limit of which name is the escaped name.
// No two limits and keys have one name. What stands between the braces decides
// which server of a cluster keeps it, and there are no other braces in it.
func (s *Store) appendKey(b []byte, tag, name, part string) []byte {
	b = append(append(b, s.prefix()...), ":l{"...)
	b = append(append(b, tag...), "}:"...)
	return append(append(append(b, name...), ':'), part...)
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
	for i := range len(s) {
		switch s[i] {
		case '%', ':', '{', '}', '#':
			return escaper.Replace(s)
		}
	}
	return s
}

var escaper = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D", "#", "%23")
