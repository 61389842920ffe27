package redisstore

import (
	"crypto/sha1" //nolint:gosec // the name Redis gives to a script, not a secret
	"encoding/hex"
)

// A Script is Lua that Redis runs as one step. Redis knows it by its hash, so
// that the source crosses the network only when Redis has not seen it yet.
type Script struct {
	source string
	hash   string
}

// NewScript returns the script with this source. It sends nothing.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &Script{source: source, hash: hex.EncodeToString(sum[:])}
}

// Source returns the Lua, for EVAL.
func (s *Script) Source() string { return s.source }

// Hash returns the SHA-1 of the source in hexadecimal, for EVALSHA.
func (s *Script) Hash() string { return s.hash }
