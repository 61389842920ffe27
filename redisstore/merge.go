package redisstore

import (
	"hash/maphash"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Calls of one moment are merged into one script where they can be: what Redis
// does for a script, for its arguments and for the clock, it then does once for
// all of them. It does nothing else meanwhile, some 3 µs for a key, so there are
// bounds.
const (
	maxMerged     = 32 // calls
	maxMergedKeys = 96 // of them all: that there are more pairs than a byte can number is ruled out
	maxOneKeys    = 8  // of a call; one with more is sent as it is

	// What many.lua is told of the keys.
	lastKey      = 128
	readTogether = 'm'
	readApart    = 'a'

	// junkLasts is how long keys are read apart after one held junk, which may be
	// long: then no more of it is read than a value of ours can have.
	junkLasts = time.Minute
)

// A parcel is what Redis runs as one script: a call, or several that are merged.
type parcel []*call

// parcels packs a batch, and changes its order. In a cluster, where the keys of a
// script must be of one slot, nothing is merged.
func parcels(batch []*call, clustered bool) []parcel {
	n := 0
	for i, w := range batch {
		if !clustered && w.merges() {
			batch[i], batch[n] = batch[n], w
			n++
		}
	}
	all := make([]parcel, 0, 2+len(batch)-n+n/(maxMergedKeys/maxOneKeys))
	for first, i, keys := 0, 0, 0; i < n; i++ {
		keys += len(batch[i].keys)
		if end := i + 1; end == n || end-first == maxMerged || keys > maxMergedKeys-maxOneKeys {
			all = append(all, batch[first:end])
			first, keys = end, 0
		}
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
		keys, args = p.merged(c.knowsJunk())
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
	layout := append(make([]byte, 0, 1+maxMergedKeys), readTogether)
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

// end hands the reply to the calls.
func (c *rueidisClient) end(p parcel, result rueidis.RedisResult) {
	message, err := result.ToMessage()
	if rueidis.IsRedisNil(err) {
		err = errReply
	} else if err != nil {
		err = c.clean(err)
	}
	switch {
	case err != nil:
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
			c.junkAt.Store(time.Now().UnixNano())
		}
	}
}

// knowsJunk reports whether a key held junk of late.
func (c *rueidisClient) knowsJunk() bool {
	at := c.junkAt.Load()
	return at > 0 && time.Now().UnixNano()-at < int64(junkLasts)
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
