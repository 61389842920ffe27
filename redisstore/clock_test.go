package redisstore

import "github.com/politehttp/polite/limiter"

// SetClock makes Redis take the time, in microseconds, from now.
func (s *Store) SetClock(now func() int64) { s.now = now }

// RedisKey returns the name of the key that a charge goes to.
func (s *Store) RedisKey(c limiter.Charge) string { return s.keyOf(&c, s.tagOf(&c)) }

func (s *Store) keyOf(c *limiter.Charge, tag string) string {
	return string(s.appendKey(nil, tag, escaped(c.Limit.Name()), keyPart(c.Key)))
}
