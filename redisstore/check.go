package redisstore

import (
	"fmt"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/pacer"
)

// CheckLimits says what is wrong with the fields, and with limits that are to be
// kept here together: one that Redis could not hold exactly, or two of one name,
// for here a limit is known by its name, and each would take the other's units for
// its own. limiter.Guard asks it at the start for all of its limits. It sends
// nothing.
func (s *Store) CheckLimits(limits ...*limiter.Limit) error {
	if err := s.Check(); err != nil {
		return err
	}
	named := map[string]*limiter.Limit{}
	for _, l := range limits {
		if _, err := s.plans.of(l); err != nil {
			return err
		}
		if other := named[l.Name()]; other != nil && other != l {
			return fmt.Errorf("redisstore: two limits are named %q: in Redis a limit is known by its name, so names differ", l.Name())
		}
		named[l.Name()] = l
	}
	return nil
}

// CheckPace says what is wrong with the fields, and with a pace that Redis could
// not keep exactly. pacer.Pacer's Check asks it at the start. It sends nothing.
func (s *Store) CheckPace(p pacer.Pace) error {
	if err := s.Check(); err != nil {
		return err
	}
	_, err := paceArgs(p, 1)
	return err
}
