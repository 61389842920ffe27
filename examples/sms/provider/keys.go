package provider

import "sync"

// keys remember what was answered to an idempotency key.
type keys struct {
	mu  sync.Mutex
	all map[string]entry // as many as messages were sent
}

type entry struct {
	print  string // of the payload that the key came with
	answer *Answer
}

type keyState int

const (
	fresh        keyState = iota // nobody came with it before; it is the caller's until finish or forget
	running                      // its first attempt is still under way
	replayed                     // it was answered
	otherPayload                 // it belongs to another message
)

func (k *keys) begin(key, print string) (Answer, keyState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, known := k.all[key]
	switch {
	case !known:
		k.all[key] = entry{print: print}
		return Answer{}, fresh
	case e.print != print:
		return Answer{}, otherPayload
	case e.answer == nil:
		return Answer{}, running
	default:
		return *e.answer, replayed
	}
}

func (k *keys) finish(key, print string, a Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[key] = entry{print: print, answer: &a}
}

func (k *keys) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, key)
}
