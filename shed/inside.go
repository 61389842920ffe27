package shed

import (
	"context"
	"net/http"
)

// mark is the context of what happens inside a Gate: it says by which visit, so
// that what is asked for within it does not wait behind its own parent.
type mark struct {
	context.Context
	gate  *gate
	visit *visit
	turn  uint64 // of the visit: once that has ended, the mark is void
	class Class
	outer *mark // by which another Gate was entered before
}

type markKey struct{}

func (m *mark) Value(key any) any {
	if key == (markKey{}) {
		return m
	}
	return m.Context.Value(key)
}

// markFrom is the innermost mark, or nil.
func markFrom(ctx context.Context) *mark {
	m, _ := ctx.Value(markKey{}).(*mark)
	return m
}

// within reports whether a visit of the Gate is not over yet in which this mark
// was made, or one around it. The Gate's lock is held.
func (m *mark) within(g *gate) bool {
	for ; m != nil; m = m.outer {
		if m.gate == g && m.visit.turn == m.turn {
			return true
		}
	}
	return false
}

func newMark(ctx context.Context, g *gate, v *visit) mark {
	return mark{Context: ctx, gate: g, visit: v, turn: v.turn, class: v.class, outer: markFrom(ctx)}
}

// within is r as the handler inside sees it. One allocation has it all.
func within(ctx context.Context, g *gate, v *visit, r *http.Request) *http.Request {
	both := &struct {
		mark
		http.Request
	}{mark: newMark(ctx, g, v)}
	both.Request = *r.WithContext(&both.mark)
	return &both.Request
}

// PriorityFrom returns the class of the request that was let in with this
// context, by whatever Gate was the last: send it with calls to other services
// (PriorityHeader), or a request that needs several of them is lost several
// times as often.
func PriorityFrom(ctx context.Context) (Class, bool) {
	m := markFrom(ctx)
	if m == nil {
		return Critical, false
	}
	return m.class, true
}

// Done tells the Gates that let in the request with this context that its work
// is over at this moment, and what follows is only sending: it took the time until
// now, instead of until the handler returns, for an adaptive limit and for what is
// enough for a deadline. The slot stays in use until then. With served false the
// work could not be done because something that it needs refused or gave up: that
// counts as a sign of too much, and however quick it came, not as a sign of room.
// The first call counts. Without a Gate it does nothing.
//
// A sub-call, with the context of a Slot or in a handler within a handler of the
// same Gate, speaks for itself alone: it is not known that its parent is done, too.
func Done(ctx context.Context, served bool) {
	inner := markFrom(ctx)
	for m := inner; m != nil; m = m.outer {
		if inner.upTo(m) {
			continue
		}
		m.gate.mu.Lock()
		if v := m.visit; v.turn == m.turn && v.done == 0 {
			v.done, v.refused = m.gate.now(), !served
		}
		m.gate.mu.Unlock()
	}
}

// upTo reports whether there is a mark of the same Gate further in than the last.
func (m *mark) upTo(last *mark) bool {
	for ; m != last; m = m.outer {
		if m.gate == last.gate {
			return true
		}
	}
	return false
}
