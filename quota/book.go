package quota

import (
	"fmt"
	"math"
	"time"
)

// book holds counts. It is the rule that every store in this process follows.
type book struct {
	counts  map[id]*count
	nextEnd int64 // no count's period ends before: until then none can go
}

// id tells counts apart.
type id struct {
	quota, key string
	start      int64 // Unix nanoseconds; math.MinInt64: it always ran
}

type count struct {
	id
	end  int64 // Unix nanoseconds; math.MaxInt64: never
	used int64 // at least 0
	in   *batch
}

// spend returns the count that it changed, if it changed one.
func (b *book) spend(t Tally, n int64, most int) (c *count, used int64, granted bool, err error) {
	c = b.counts[idOf(t)]
	if c != nil {
		used = c.used
	}
	if used >= t.Limit && n == 0 || n > t.Limit-used {
		return nil, used, false, nil
	}
	if n == 0 {
		return nil, used, true, nil
	}
	if c == nil {
		if c, err = b.open(t, most); err != nil {
			return nil, 0, false, err
		}
	}
	c.used += n
	return c, c.used, true, nil
}

// settle returns the count that it changed, if it changed one, and by how much.
func (b *book) settle(t Tally, delta, atLeast int64, most int) (c *count, used, by int64, err error) {
	c = b.counts[idOf(t)]
	if c != nil {
		used = c.used
	}
	want := used + delta
	if delta > 0 && want < 0 {
		want = math.MaxInt64
	}
	want = max(0, want, atLeast)
	if want == used {
		return nil, used, 0, nil
	}
	if c == nil {
		if c, err = b.open(t, most); err != nil {
			return nil, 0, 0, err
		}
	}
	c.used = want
	return c, want, want - used, nil
}

// open makes a new count.
func (b *book) open(t Tally, most int) (*count, error) {
	if len(b.counts) >= most {
		at := startOf(t)
		if t.Start.IsZero() {
			at = time.Now().UnixNano()
		}
		b.dropPassed(at)
		if len(b.counts) >= most {
			return nil, fmt.Errorf("quota: %d counts are held, all of periods that still run, so a further key is refused: raise MaxKeys", len(b.counts))
		}
	}
	c := &count{id: idOf(t), end: endOf(t)}
	b.put(c)
	return c, nil
}

func (b *book) put(c *count) {
	if b.counts == nil {
		b.counts, b.nextEnd = make(map[id]*count), math.MaxInt64
	}
	b.counts[c.id] = c
	b.nextEnd = min(b.nextEnd, c.end)
}

// dropPassed drops the counts whose period ended at or before the given instant.
func (b *book) dropPassed(at int64) {
	if b.nextEnd > at {
		return
	}
	b.nextEnd = math.MaxInt64
	for id, c := range b.counts {
		if c.end <= at {
			delete(b.counts, id)
		} else {
			b.nextEnd = min(b.nextEnd, c.end)
		}
	}
}

func idOf(t Tally) id { return id{t.Quota, t.Key, startOf(t)} }

func startOf(t Tally) int64 {
	if t.Start.IsZero() {
		return math.MinInt64
	}
	return t.Start.UnixNano()
}

func endOf(t Tally) int64 {
	if t.End.IsZero() {
		return math.MaxInt64
	}
	return t.End.UnixNano()
}

func timeOf(nano int64) time.Time {
	if nano == math.MinInt64 || nano == math.MaxInt64 {
		return time.Time{}
	}
	return time.Unix(0, nano).UTC()
}
