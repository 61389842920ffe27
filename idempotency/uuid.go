package idempotency

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
)

// reserve is randomness that was got in one go, for the system's is dear by the
// call. What was used is never used again.
type reserve struct {
	bytes [32 * 16]byte
	left  int // at the end of bytes
}

var reserves = sync.Pool{New: func() any { return new(reserve) }}

// newUUID returns a random UUID (RFC 9562, section 5.4). crypto/rand.Read never
// fails: it ends the program if the system has no randomness.
func newUUID() string {
	r := reserves.Get().(*reserve)
	if r.left == 0 {
		rand.Read(r.bytes[:])
		r.left = len(r.bytes)
	}
	from := r.bytes[len(r.bytes)-r.left:][:16]
	raw := [16]byte(from)
	clear(from)
	r.left -= 16
	reserves.Put(r)

	raw[6] = raw[6]&0x0f | 0x40 // version 4
	raw[8] = raw[8]&0x3f | 0x80 // variant of RFC 9562
	var text [36]byte
	hex.Encode(text[:8], raw[:4])
	hex.Encode(text[9:13], raw[4:6])
	hex.Encode(text[14:18], raw[6:8])
	hex.Encode(text[19:23], raw[8:10])
	hex.Encode(text[24:], raw[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
