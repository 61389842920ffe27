package shed

// shares is who waits, by tenant, so that one who is refused can be told whether
// that is about its own doing. It has no more entries than there are requests
// that wait. The engine's own books decide; these only name the reason.
type shares struct {
	tenants map[string]share
	waiting int64
	weights int64 // of all tenants of whom one waits
}

type share struct{ waiting, weight int64 }

func (s *shares) add(tenant string, weight int) {
	if s.tenants == nil {
		s.tenants = map[string]share{}
	}
	one, ok := s.tenants[tenant]
	if !ok {
		one.weight = int64(min(max(weight, 1), 1<<16))
		s.weights += one.weight
	}
	one.waiting++
	s.waiting++
	s.tenants[tenant] = one
}

func (s *shares) remove(tenant string) {
	one := s.tenants[tenant]
	one.waiting--
	s.waiting--
	if one.waiting > 0 {
		s.tenants[tenant] = one
		return
	}
	s.weights -= one.weight
	delete(s.tenants, tenant)
}

// over reports whether a tenant has more than its share of the queue, by more
// than the one request that makes the difference when the queue is full.
// Nobody in particular has no share to be over.
func (s *shares) over(tenant string) bool {
	one := s.tenants[tenant]
	return tenant != "" && len(s.tenants) > 1 && (one.waiting-1)*s.weights > s.waiting*one.weight
}
