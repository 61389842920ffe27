package limiter

import (
	"cmp"
	"slices"
)

// topKeys finds the keys that occur most often, in the memory of size counters
// however many keys there are: Space-Saving (Metwally, Agrawal, El Abbadi:
// Efficient computation of frequent and top-k elements in data streams, 2005).
//
// A key that has no counter takes over the smallest one, with its count, which
// it notes as its own possible error. After a total of N therefore
//
//	count − error ≤ true count ≤ count,
//	error ≤ smallest count ≤ N/size,
//	and every key that occurred more than N/size times has a counter.
//
// The counters are a heap with the smallest on top. It is not safe for use by
// several goroutines.
type topKeys[K comparable] struct {
	size  int
	total int64
	slots map[K]int32
	count []keyCount[K]
	heap  []int32 // slots, such that no one's count is less than its parent's
	place []int32 // of each slot in heap
}

// keyCount is a key and how often it occurred: at least count − err times, and
// at most count times.
type keyCount[K comparable] struct {
	key        K
	count, err int64
}

// newTopKeys returns a topKeys with size counters, at least 1. They are
// allocated as keys come.
func newTopKeys[K comparable](size int) *topKeys[K] {
	return &topKeys[K]{size: size, slots: map[K]int32{}}
}

// add counts n occurrences of key, at least 1. What it keeps of a key that it
// did not know is own(key).
func (t *topKeys[K]) add(key K, n int64, own func(K) K) {
	t.total += n
	if slot, ok := t.slots[key]; ok {
		t.count[slot].count += n
		t.down(t.place[slot])
		return
	}
	key = own(key)
	if len(t.count) < t.size {
		slot := int32(len(t.count))
		t.slots[key] = slot
		t.count = append(t.count, keyCount[K]{key: key, count: n})
		t.heap = append(t.heap, slot)
		t.place = append(t.place, slot)
		t.up(slot)
		return
	}
	slot := t.heap[0]
	c := &t.count[slot]
	delete(t.slots, c.key)
	t.slots[key] = slot
	*c = keyCount[K]{key: key, count: c.count + n, err: c.count}
	t.down(0)
}

// bound is how often a key without a counter may have occurred at most.
func (t *topKeys[K]) bound() int64 {
	if len(t.count) < t.size {
		return 0
	}
	return t.count[t.heap[0]].count
}

// list returns the counters, largest first.
func (t *topKeys[K]) list() []keyCount[K] {
	l := slices.Clone(t.count)
	slices.SortStableFunc(l, func(a, b keyCount[K]) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.err, b.err))
	})
	return l
}

func (t *topKeys[K]) up(i int32) {
	for i > 0 {
		parent := (i - 1) / 2
		if t.at(parent) <= t.at(i) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *topKeys[K]) down(i int32) {
	for {
		least, left := i, 2*i+1
		for child := left; child <= left+1 && int(child) < len(t.heap); child++ {
			if t.at(child) < t.at(least) {
				least = child
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

// at is the count at place i of the heap.
func (t *topKeys[K]) at(i int32) int64 { return t.count[t.heap[i]].count }

func (t *topKeys[K]) swap(i, j int32) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.place[t.heap[i]], t.place[t.heap[j]] = i, j
}
