package provider

import "math/rand/v2"

// Of every failBlock attempts one is answered 503, of every dropBlock messages
// one is processed and its answer lost: 6.25 % and 6.67 %.
const failBlock, dropBlock = 16, 15

// faults is the schedule of what goes wrong: one event in every block, at a
// place that the seed decides. It is a function of the count alone, so a
// provider that was started again goes on in it.
type faults struct{ seed uint64 }

// fails says whether attempt n, from 0, is answered 503 without processing.
func (f faults) fails(n int) bool { return f.hit(n, failBlock, 503) }

// drops says whether the answer to message n, from 0, is lost on the way.
func (f faults) drops(n int) bool { return f.hit(n, dropBlock, 444) }

func (f faults) hit(n, block int, kind uint64) bool {
	place := rand.New(rand.NewPCG(f.seed, kind<<32|uint64(n/block))).IntN(block)
	return n%block == place
}
