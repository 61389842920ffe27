package shed

import "github.com/politehttp/polite/internal/admission"

// shares is who waits, by tenant, so that one who is refused can be told whether
// that is about its own doing. It has no more entries than there are requests
// that wait. The engine's own books decide; these only name the reason.
type shares struct {
	tenants map[owner]share
	waiting int64
	weights int64 // of all tenants of whom one waits
}

type share struct{ waiting, weight int64 }

// owner is whose share it is: a name that was proven is not the same unproven.
type owner struct {
	tenant string
	known  bool
}

func ownerOf(t *admission.Ticket) owner { return owner{t.Tenant, t.Known && t.Tenant != ""} }

// add counts a ticket that was queued. Producers take no place there.
func (s *shares) add(t *admission.Ticket) {
	if t.Patient {
		return
	}
	if s.tenants == nil {
		s.tenants = map[owner]share{}
	}
	one, ok := s.tenants[ownerOf(t)]
	if !ok {
		one.weight = int64(min(max(t.Weight, 1), 1<<16))
		s.weights += one.weight
	}
	one.waiting++
	s.waiting++
	s.tenants[ownerOf(t)] = one
}

func (s *shares) remove(t *admission.Ticket) {
	if t.Patient {
		return
	}
	one := s.tenants[ownerOf(t)]
	one.waiting--
	s.waiting--
	if one.waiting > 0 {
		s.tenants[ownerOf(t)] = one
		return
	}
	s.weights -= one.weight
	delete(s.tenants, ownerOf(t))
}

// over reports whether a tenant has more than its share of the queue, by more
// than the one request that makes the difference when the queue is full.
// Nobody in particular has no share to be over.
func (s *shares) over(t *admission.Ticket) bool {
	one := s.tenants[ownerOf(t)]
	return t.Tenant != "" && len(s.tenants) > 1 && (one.waiting-1)*s.weights > s.waiting*one.weight
}
