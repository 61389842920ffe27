package rule

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A history is as long as its quota, or its cells, and no longer; and gives
// back what a busy time took.
func TestHistoryIsBounded(t *testing.T) {
	log := keep(made(NewSlidingLog(1000, hour)))
	for now := today; now < today+5*hour; now += second {
		log.take(now, 1)
	}
	assert.LessOrEqual(t, log.long.Bytes(), 40+16*3000)
	assert.EqualValues(t, 1000, log.long.total)
	now := today + 6*hour
	for range 1000 {
		now += 10 * second
		log.take(now, 2)
	}
	assert.LessOrEqual(t, log.long.Bytes(), 40+16*1100, "360 an hour")
	log.take(now+2*hour, 0)
	assert.Zero(t, log.long.Bytes()-40)

	cells := keep(made(NewSlidingBuckets(1_000_000, hour, 60)))
	for now := today; now < today+5*hour; now += second {
		cells.take(now, 7)
	}
	assert.LessOrEqual(t, cells.long.Bytes(), 40+16*128)

	once := keep(made(NewSlidingLog(10_000, hour)))
	assert.True(t, once.take(today, 10_000).Allowed(), "one cost is one entry")
	assert.LessOrEqual(t, once.long.Bytes(), 40+16*4)
}

func TestNilHistoryIsNew(t *testing.T) {
	r := made(NewSlidingLog(10, hour))
	assert.Equal(t, Verdict{Remaining: 8, Reset: hour}, r.Ask(nil, today, 2))
	assert.True(t, r.Blank(nil, today))
	r.Return(nil, today, 1)
	assert.Zero(t, r.Used(State{}, nil, today))
}
