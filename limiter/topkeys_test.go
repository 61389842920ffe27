package limiter

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sameKey[K any](k K) K { return k }

// checkTop holds a topKeys against true counts.
func checkTop(t *testing.T, top *topKeys[int], truth map[int]int64) {
	t.Helper()
	var total int64
	for _, n := range truth {
		total += n
	}
	require.Equal(t, total, top.total)
	require.LessOrEqual(t, len(top.count), top.size)
	require.LessOrEqual(t, len(top.slots), top.size)
	require.LessOrEqual(t, top.bound(), total/int64(top.size))
	var sum int64
	listed := map[int]bool{}
	last := int64(1) << 62
	for _, c := range top.list() {
		n := truth[c.key]
		if c.count-c.err > n || n > c.count || c.err > top.bound() {
			t.Fatalf("%d occurred %d times, and not %d to %d (bound %d)", c.key, n, c.count-c.err, c.count, top.bound())
		}
		if c.count > last || listed[c.key] {
			t.Fatalf("%d is listed again or out of order", c.key)
		}
		listed[c.key], last = true, c.count
		sum += c.count
	}
	require.Equal(t, total, sum, "each occurrence is in one counter")
	for key, n := range truth {
		if !listed[key] && (n > total/int64(top.size) || n > top.bound()) {
			t.Fatalf("%d occurred %d times of %d and is not listed with %d others", key, n, total, top.size)
		}
	}
	for i := 1; i < len(top.heap); i++ {
		if top.at(int32(i-1)/2) > top.at(int32(i)) {
			t.Fatalf("no heap at %d", i)
		}
	}
}

// The guarantees of Space-Saving, for streams of many shapes and weights.
func TestTopKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draws := map[string]func(i int) int{
		"uniform":     func(int) int { return r.IntN(500) },
		"skewed":      func(int) int { return int(rand.NewZipf(r, 1.2, 1, 5000).Uint64()) },
		"one and all": func(i int) int { return i % 2 * i },
		"each once":   func(i int) int { return i },
		"in blocks":   func(i int) int { return i / 50 },
		"few":         func(int) int { return r.IntN(3) },
		"in turn":     func(i int) int { return i % 17 },
	}
	for name, draw := range draws {
		for _, size := range []int{1, 2, 3, 16, 100} {
			for _, most := range []int64{1, 20} {
				top, truth := newTopKeys[int](size), map[int]int64{}
				for i := range 4000 {
					key, n := draw(i), 1+r.Int64N(most)
					top.add(key, n, sameKey)
					if truth[key] += n; i%500 == 0 {
						checkTop(t, top, truth)
					}
				}
				checkTop(t, top, truth)
				if t.Failed() {
					t.Fatal(name, size, most)
				}
			}
		}
	}
}

func TestTopKeysExactWhileThereIsRoom(t *testing.T) {
	top := newTopKeys[string](3)
	for _, key := range []string{"a", "b", "a", "c", "a", "b"} {
		top.add(key, 1, sameKey)
	}
	assert.Equal(t, []keyCount[string]{{"a", 3, 0}, {"b", 2, 0}, {"c", 1, 0}}, top.list())
	top.add("d", 1, sameKey)
	assert.Equal(t, []keyCount[string]{{"a", 3, 0}, {"b", 2, 0}, {"d", 2, 1}}, top.list())
	assert.EqualValues(t, 2, top.bound())
	assert.EqualValues(t, 7, top.total)
}

func FuzzTopKeys(f *testing.F) {
	f.Add(uint8(2), []byte("abacabadabacabae"))
	f.Add(uint8(1), []byte("aab"))
	f.Fuzz(func(t *testing.T, size uint8, stream []byte) {
		top, truth := newTopKeys[int](int(size)+1), map[int]int64{}
		for _, b := range stream {
			n := int64(b>>5) + 1
			top.add(int(b&31), n, sameKey)
			truth[int(b&31)] += n
		}
		checkTop(t, top, truth)
	})
}

func BenchmarkTopKeys(b *testing.B) {
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = Key("address", "203.0."+strconv.Itoa(i>>8)+"."+strconv.Itoa(i&255))
	}
	for name, mask := range map[string]int{"one": 0, "tracked": 63, "flood": len(keys) - 1} {
		b.Run(name, func(b *testing.B) {
			top := newTopKeys[string](100)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				top.add(keys[i&mask], 1, sameKey)
			}
		})
	}
}
