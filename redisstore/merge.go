package redisstore

import (
	"hash/maphash"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Calls of one moment are merged into one script where they can be: what Redis
// does for a script, for its arguments and for the clock, it then does once for
// all of them. It does nothing else meanwhile, some 3 µs for a key, and up to a
// millisecond for that of a log whose numbers have changed; so there are bounds.
const (
	maxMerged  = 32 // calls
	maxWeight  = 96 // of all keys: one of a log counts for several
	logWeight  = 16
	maxOneKeys = 8 // of a call; one with more is sent as it is

	// What many.lua is told of the keys.
	lastKey      = 128
	readTogether = 'm'
	readApart    = 'a'
)

// What was met may come again.
const (
	junkLasts  = time.Hour   // a key that holds junk, which may be long: keys are read apart
	lossLasts  = time.Minute // no answer, maybe because of such a key
	crossLasts = time.Hour   // a script that may not use the keys of all: none is merged
)

// A parcel is what Redis runs as one script: a call, or several that are merged.
type parcel []*call

// parcels packs a batch, and changes its order.
func parcels(batch []*call, merge bool) []parcel {
	n := 0
	for i, w := range batch {
		if merge && w.merges() {
			batch[i], batch[n] = batch[n], w
			n++
		}
	}
	all := make([]parcel, 0, 2+len(batch)-n+n/maxMerged)
	first, weight := 0, 0
	for i, w := range batch[:n] {
		more := w.weight()
		if i-first == maxMerged || i > first && weight+more > maxWeight {
			all = append(all, batch[first:i])
			first, weight = i, 0
		}
		weight += more
	}
	if first < n {
		all = append(all, batch[first:n])
	}
	for i := n; i < len(batch); i++ {
		all = append(all, batch[i:i+1])
	}
	return all
}

// merges reports whether w may be merged with others of its kind: it charges a few
// keys, by Redis's own clock.
func (w *call) merges() bool {
	return w.script == takeScript && len(w.keys) <= maxOneKeys && len(w.args) == 2*len(w.keys)+1 && w.args[0] == ""
}

// weight is that of w's keys.
func (w *call) weight() int {
	weight := 0
	for i := 1; i < len(w.args); i += 2 {
		if kind := w.args[i][1]; kind == 'l' || kind == 's' {
			weight += logWeight
		} else {
			weight++
		}
	}
	return weight
}

// singles are the calls of p, each by itself.
func (p parcel) singles() []parcel {
	all := make([]parcel, len(p))
	for i := range p {
		all[i] = p[i : i+1]
	}
	return all
}

// script is what Redis runs for p.
func (p parcel) script() *Script {
	if len(p) > 1 {
		return takeManyScript
	}
	return p[0].script
}

// command is EVALSHA, or EVAL with the source.
func (c *rueidisClient) command(client rueidis.Client, p parcel, source bool) rueidis.Completed {
	s, keys, args := p.script(), p[0].keys, p[0].args
	if len(p) > 1 {
		keys, args = p.merged(c.junk.holds())
	}
	command := client.B().Arbitrary("EVALSHA", s.hash)
	if source {
		command = client.B().Arbitrary("EVAL", s.source)
	}
	return command.Args(strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
}

// merged returns the keys of all calls, and the arguments that many.lua wants. No
// key is read together with others where some are known to be junk, or if one comes
// twice, for the later decision must see what the one before has written.
func (p parcel) merged(junk bool) (keys, args []string) {
	keys, args = make([]string, 0, len(p)*len(p[0].keys)), append(make([]string, 0, 8), p[0].args[0])
	layout := append(make([]byte, 0, 1+maxWeight), readTogether)
	for _, w := range p {
		keys = append(keys, w.keys...)
		for at := 1; at < len(w.args); at += 2 {
			spec, charge := w.args[at], w.args[at+1]
			pair := 1
			for pair < len(args) && (args[pair] != spec || args[pair+1] != charge) {
				pair += 2
			}
			if pair >= len(args) {
				args = append(args, spec, charge)
			}
			layout = append(layout, byte((pair+1)/2))
		}
		layout[len(layout)-1] |= lastKey
	}
	if junk || repeats(keys) {
		layout[0] = readApart
	}
	return keys, append(args, string(layout))
}

// repeats reports whether a key is there twice.
func repeats(keys []string) bool {
	var at [256]uint8 // a hash table, less than half full, of places in keys from 1
	for i, key := range keys {
		slot := uint8(maphash.String(keySeed, key))
		for ; at[slot] > 0; slot++ {
			if keys[at[slot]-1] == key {
				return true
			}
		}
		at[slot] = uint8(i + 1)
	}
	return false
}

var keySeed = maphash.MakeSeed()

// end hands the reply to the calls. It returns false if none of several calls was
// run because of one, and then each has to be sent by itself.
func (c *rueidisClient) end(p parcel, result rueidis.RedisResult) bool {
	message, err := result.ToMessage()
	if rueidis.IsRedisNil(err) {
		err = errReply
	} else if err != nil {
		err = c.clean(err)
	}
	switch {
	case err != nil:
		if reply, ok := replied(err); !ok {
			c.junk.note(lossLasts)
		} else if len(p) > 1 && reply.bars() {
			c.crossing.note(crossLasts)
			return false
		}
		for _, w := range p {
			w.err = err
		}
	case len(p) == 1:
		p[0].reply, p[0].err = flat(&message)
	case !c.split(p, &message):
		for _, w := range p {
			w.reply, w.err = nil, errReply
		}
	}
	for _, w := range p {
		if w.script == takeScript && len(w.reply) > 0 && strings.HasPrefix(w.reply[0], "j") {
			c.junk.note(junkLasts)
		}
	}
	return true
}

// bars reports whether Redis has run nothing, for the keys are of several slots, of
// which a client library that takes a cluster for one server does not know; or the
// user may not touch all of them. What is refused to a command within a script
// names the script.
func (e *ReplyError) bars() bool {
	code := e.Code()
	return (code == "CROSSSLOT" || code == "NOPERM") && !strings.Contains(e.Text, "script")
}

// met is until when something that was met may come again, since the program
// began.
type met struct{ until atomic.Int64 }

var began = time.Now()

func (m *met) note(lasts time.Duration) {
	until := int64(time.Since(began) + lasts)
	if old := m.until.Load(); old < until {
		m.until.CompareAndSwap(old, until) // else somebody else notes something now
	}
}

func (m *met) holds() bool {
	until := m.until.Load()
	return until > 0 && int64(time.Since(began)) < until
}

// split takes the answer of many.lua apart, so that each call has the one that it
// would have had by itself. It reports whether that was an answer of many.lua.
func (c *rueidisClient) split(p parcel, message *rueidis.RedisMessage) bool {
	all, err := message.ToArray()
	if err != nil || len(all) < 2 {
		return false
	}
	rest := all[:len(all)-2]
	now, err1 := all[len(all)-2].ToString()
	told, err2 := all[len(all)-1].ToString()
	if err1 != nil || err2 != nil || len(told) != len(p) {
		return false
	}
	replies := make([]string, 0, len(p)+len(rest))
	heads := [...]string{"0" + now + ";", "1" + now + ";"}
	for i, w := range p {
		n := len(w.keys)
		if len(rest) < n {
			return false
		}
		begin := len(replies)
		switch told[i] {
		case '0', '1':
			replies = append(replies, heads[told[i]-'0'])
			for j := range n {
				value, err := rest[j].ToString()
				if err != nil {
					return false
				}
				replies = append(replies, value)
			}
		case 't':
			if w.err = rest[0].Error(); w.err != nil {
				w.err = c.clean(w.err)
				break
			}
			text, err := scalar(&rest[0])
			replies, w.err = append(replies, text), err
		default:
			return false
		}
		w.reply, rest = replies[begin:len(replies):len(replies)], rest[n:]
	}
	return len(rest) == 0
}
