package main

import "time"

// counts is what came to the provider in a time.
type counts struct {
	lasted time.Duration
	calls  []call
	size   int
}

// tally is of one process, or of all.
type tally struct{ sent, refused int }

// between returns what each process sent in [from, to), and the sum.
func (c *counts) between(from, to time.Duration) (each []tally, sum tally) {
	each = make([]tally, c.size)
	for _, one := range c.calls {
		if one.at < from || one.at >= to {
			continue
		}
		t := &each[one.process]
		t.sent++
		sum.sent++
		if one.refused {
			t.refused++
			sum.refused++
		}
	}
	return each, sum
}

// used is the part of the limit that was used, from the second second on.
func (c *counts) used(rate int64) float64 {
	_, sum := c.between(warmUp, c.lasted)
	return float64(sum.sent-sum.refused) / (float64(rate) * (c.lasted - warmUp).Seconds())
}

// warmUp is when all are under way.
const warmUp = time.Second
