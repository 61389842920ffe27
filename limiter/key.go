package limiter

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
)

// maxKey bounds a key: a longer one is replaced by a hash of it, never cut and
// never passed over (nginx#1583).
const maxKey = 160

// Key makes one key of parts, such that no two lists of parts have the same
// key: ("a:b", "c") and ("a", "b:c") differ, and so do ("a") and ("a", "").
//
// A key is text of at most 160 bytes that is fit for a log, a URL's query, a
// Redis key and its hash tag: letters, digits and -._~:/@+=,; stand for
// themselves, a bar stands between parts, and every other byte is a percent
// sign and two hexadecimal digits. Where that would be longer, the key is the
// first part, if short, and a hash of all (128 bits of SHA-256), so that the
// size of what a client sends is no way around a limit and no way to fill a
// store.
//
// The key of no parts is empty, and nothing else is. A key function that
// returns the empty string says that the request has no such identity.
func Key(parts ...string) string {
	var buf [maxKey]byte
	b := buf[:0]
	for i, part := range parts {
		var ok bool
		if b, ok = appendPart(b, i, part); !ok {
			return longKey(parts)
		}
	}
	return string(b)
}

// appendPart appends the i-th part to a key, or reports false if it would be
// too long; b never grows beyond its maxKey bytes.
func appendPart(b []byte, i int, part string) ([]byte, bool) {
	if i > 0 {
		if len(b) == maxKey {
			return b, false
		}
		b = append(b, '|')
	}
	if len(b)+max(len(part), 1) > maxKey {
		return b, false
	}
	if part == "" {
		return append(b, '%'), true // no escape, since no digits follow
	}
	for part != "" {
		n := 0
		for n < len(part) && plain[part[n]] {
			n++
		}
		if len(b)+n > maxKey {
			return b, false
		}
		b = append(b, part[:n]...)
		if part = part[n:]; part == "" {
			break
		}
		if len(b)+3 > maxKey {
			return b, false
		}
		b = append(b, '%', hexDigits[part[0]>>4], hexDigits[part[0]&15])
		part = part[1:]
	}
	return b, true
}

// longKey is the first part, if it is short, and a hash of all. A percent sign
// before a tilde is in no other key.
func longKey(parts []string) string {
	var buf [maxKey]byte
	b := buf[:0]
	if first, ok := appendPart(b, 0, parts[0]); ok && len(first) <= 32 {
		b = append(first, '|')
	}
	h := sha256.New()
	piece := make([]byte, 1<<10)
	for _, part := range parts { // the lengths tell the parts apart
		h.Write(binary.BigEndian.AppendUint64(piece[:0], uint64(len(part))))
		writeString(h, part, piece)
	}
	b = append(b, '%', '~')
	return string(base64.RawURLEncoding.AppendEncode(b, h.Sum(piece[:0])[:16]))
}

// writeString writes s to h piece by piece, for a copy may be of a megabyte.
func writeString(h hash.Hash, s string, piece []byte) {
	for s != "" {
		n := copy(piece, s)
		h.Write(piece[:n])
		s = s[n:]
	}
}

const hexDigits = "0123456789ABCDEF"

// plain are the bytes that stand for themselves in a key.
var plain = func() (t [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/@+=,;") {
		t[c] = true
	}
	return t
}()
