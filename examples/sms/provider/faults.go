package provider

import "math/rand/v2"

// Of every failBlock attempts one is answered 503, of every dropBlock messages
// one is processed and its answer lost: 6.25 % and 6.67 %.
const failBlock, dropBlock = 16, 15

// faults is the schedule of what goes wrong: one event in every block, at a
// place that the seed decides, and in the first block an early one, so that a
// short list meets both. It is a function of the count alone, so a provider that
// is started again goes on in it.
type faults struct{ seed uint64 }

// fails says whether attempt n, from 0, is answered 503 without processing.
func (f faults) fails(n int) bool {
	if n < failBlock {
		return n == 5+f.place(0, 5)
	}
	return n%failBlock == f.place(uint64(n/failBlock), failBlock)
}

// drops says whether the answer to message n, from 0, is lost on the way.
func (f faults) drops(n int) bool {
	if n < dropBlock {
		return n == f.place(1<<32, 5)
	}
	return n%dropBlock == f.place(1<<32+uint64(n/dropBlock), dropBlock)
}

// place is a number below n, which stays the same for one block.
func (f faults) place(block uint64, n int) int {
	return rand.New(rand.NewPCG(f.seed, block)).IntN(n)
}
