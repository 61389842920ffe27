package redisstore

import (
	"fmt"
	"strings"
)

// The parts of a cluster have a circuit each, so that one server which hangs
// does not keep the others from being asked. Who serves a slot is for the client
// library to know; but a server has slots in a row, so that what holds for one
// slot mostly holds for its neighbours.
const (
	slots    = 1 << 14
	parts    = 64
	partSize = slots / parts
)

// partNames are the keys of the circuits of a cluster.
var partNames = func() (names [parts]string) {
	for i := range names {
		names[i] = fmt.Sprintf("redis slots %d-%d", i*partSize, (i+1)*partSize-1)
	}
	return names
}()

// hashSlot returns the slot of a key (Redis cluster specification, "Hash tags").
func hashSlot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcOf[byte(crc>>8)^key[i]]
	}
	return int(crc % slots)
}

// crcOf is CRC-16/XMODEM, a byte at a time.
var crcOf = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if carry := crc&0x8000 != 0; carry {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
