package idempotency

import (
	"crypto/rand"
	"encoding/hex"
)

// newUUID returns a random UUID (RFC 9562, section 5.4). crypto/rand.Read never
// fails: it ends the program if the system has no randomness.
func newUUID() string {
	var raw [16]byte
	rand.Read(raw[:])
	raw[6] = raw[6]&0x0f | 0x40 // version 4
	raw[8] = raw[8]&0x3f | 0x80 // variant of RFC 9562
	var text [36]byte
	at := 0
	for i, group := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			text[at] = '-'
			at++
		}
		hex.Encode(text[at:], raw[:group])
		copy(raw[:], raw[group:])
		at += 2 * group
	}
	return string(text[:])
}
