package rule

// Carry turns what was remembered of a key under the rule old into what is
// remembered of it under r: units in use stay in use. It uses s and returns a
// State if the rule concerned is not Long, h and a History if it is; h, which may be
// nil, must not be used afterwards.
func (r *Rule) Carry(old *Rule, s State, h *History, now int64) (State, *History) { panic("later") }

// Same reports whether r and o are the same rule with the same numbers: what
// one remembers the other can read.
func (r *Rule) Same(o *Rule) bool { panic("later") }
