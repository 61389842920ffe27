package polite

import (
	"fmt"

	"github.com/politehttp/polite/pacer"
)

// checkParts finds what a configuration file could get wrong.
func (t *Transport) checkParts() error {
	for i, q := range t.Quotas {
		if q == nil {
			return fmt.Errorf("polite: Transport.Quotas[%d] is nil; leave it out", i)
		}
		if err := q.Check(); err != nil {
			return fmt.Errorf("polite: Transport.Quotas[%d]: %w", i, err)
		}
	}
	if err := checkPacer("Transport.Pacer", t.Pacer); err != nil {
		return err
	}
	for i, l := range t.Lanes {
		if err := checkPacer(fmt.Sprintf("Transport.Lanes[%d].Pacer", i), l.Pacer); err != nil {
			return err
		}
	}
	return nil
}

func checkPacer(name string, p *pacer.Pacer) error {
	if p == nil {
		return nil
	}
	// Half a rate would be none, and nobody would notice.
	if r := p.Rate; (r.Count > 0) != (r.Per > 0) {
		return fmt.Errorf("polite: %s.Rate is %d per %v; a rate needs both, as pacer.Per(10, time.Second) makes it, and no rate neither", name, r.Count, r.Per)
	}
	return nil
}
