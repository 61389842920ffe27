package provider

import "sync"

// keys remember what was answered to an idempotency key.
type keys struct {
	mu  sync.Mutex
	all map[string]entry // as many as messages were sent
}

type entry struct {
	hash   string // of the payload that the key came with
	answer *Answer
}

type keyState int

const (
	fresh        keyState = iota // nobody came with it before; it is the caller's until finish or forget
	running                      // its first attempt is still under way
	replayed                     // it was answered
	otherPayload                 // it belongs to another message
)

func (k *keys) begin(key, hash string) (Answer, keyState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, known := k.all[key]
	switch {
	case !known:
		k.all[key] = entry{hash: hash}
		return Answer{}, fresh
	case e.hash != hash:
		return Answer{}, otherPayload
	case e.answer == nil:
		return Answer{}, running
	default:
		return *e.answer, replayed
	}
}

func (k *keys) finish(key, hash string, a Answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all[key] = entry{hash: hash, answer: &a}
}

func (k *keys) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, key)
}
