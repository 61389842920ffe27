package admission

import (
	"encoding/binary"
	"math/bits"
)

// hash is a seeded 64-bit hash by folded multiplication. It is not a
// cryptographic one: nobody sees its values, so a seed drawn at random is
// enough against names made to collide.
func hash(seed uint64, s string) uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xd1b54a32d192ed03 // odd, bits well mixed
	h := fold(seed^a, uint64(len(s))^b)
	for len(s) > 8 {
		h = fold(h^word(s), b)
		s = s[8:]
	}
	return fold(h^word(s), a^seed)
}

func fold(x, y uint64) uint64 {
	high, low := bits.Mul64(x, y)
	return high ^ low
}

// word is up to 8 bytes of s.
func word(s string) uint64 {
	var w [8]byte
	copy(w[:], s)
	return binary.LittleEndian.Uint64(w[:])
}
