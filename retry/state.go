package retry

import (
	"sync"
	"time"

	"github.com/politehttp/polite/internal/origin"
)

// State is what the calls of one owner share: the budget of those whose policy
// has none, and the clock that ends attempts. A Transport has one; who uses Do
// keeps one beside its other parts. The zero value is ready. A State must not
// be copied.
type State struct {
	budget  Budget
	watch   watchdog
	origins origin.Cache
	begun   sync.Once
	epoch   time.Time
	random  func() float64 // nil: math/rand/v2; set by tests
}

// Now is time.Now at half the price: the first reading, and the time since then
// by the monotonic clock. Where somebody sets the clock it goes on as before.
func (s *State) Now() time.Time { return s.now() }

// now reads the clock at the price of a monotonic reading, which is half of
// time.Now's.
func (s *State) now() time.Time {
	t := s.since()
	return s.epoch.Add(t)
}

// since is the time since the first reading.
func (s *State) since() time.Duration {
	s.begin()
	return time.Since(s.epoch)
}

func (s *State) begin() {
	s.begun.Do(func() {
		s.epoch = time.Now()
		s.watch.next.Store(unarmed)
	})
}
