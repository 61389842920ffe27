package idempotency

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Derive makes a key from what a call is about, so that the same row of the
// same job has the same key after a crash, in another process and in next
// year's release. It is the first 24 bytes of the SHA-256 over the parts, each
// after its length as 8 bytes big-endian, in base64url: 32 characters of
// A-Z a-z 0-9 _ -, which every provider takes. The lengths keep
// ("ab", "c") and ("a", "bc") apart. The key does not reveal the parts, unless
// they can be guessed.
func Derive(parts ...string) string {
	h := sha256.New()
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.EncodeToString(h.Sum(sum[:0])[:24])
}
