package idempotency

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
)

// reserve is randomness that was got in one go, for the system's is dear by the
// call, and keys that were made of it in one piece of memory. They are few, for
// whoever keeps one key keeps its batch. What was used is never used again.
type reserve struct {
	random [4 * batch * rawSize]byte
	left   int    // of random, at its end
	keys   string // not handed out yet
}

const (
	batch    = 8
	rawSize  = 16
	textSize = 36
)

var reserves = sync.Pool{New: func() any { return new(reserve) }}

// newUUID returns a random UUID (RFC 9562, section 5.4).
func newUUID() string {
	r := reserves.Get().(*reserve)
	if r.keys == "" {
		r.keys = r.batch()
	}
	key := r.keys[:textSize]
	r.keys = r.keys[textSize:]
	reserves.Put(r)
	return key
}

// batch makes UUIDs, one behind the other. crypto/rand.Read never fails: it
// ends the program if the system has no randomness.
func (r *reserve) batch() string {
	if r.left == 0 {
		rand.Read(r.random[:])
		r.left = len(r.random)
	}
	var keys [batch * textSize]byte
	for i := range batch {
		raw, text := r.random[len(r.random)-r.left:][:rawSize], keys[i*textSize:][:textSize]
		raw[6] = raw[6]&0x0f | 0x40 // version 4
		raw[8] = raw[8]&0x3f | 0x80 // variant of RFC 9562
		hex.Encode(text[:8], raw[:4])
		hex.Encode(text[9:13], raw[4:6])
		hex.Encode(text[14:18], raw[6:8])
		hex.Encode(text[19:23], raw[8:10])
		hex.Encode(text[24:], raw[10:])
		text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
		clear(raw)
		r.left -= rawSize
	}
	return string(keys[:])
}
