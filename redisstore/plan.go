package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/politehttp/polite/internal/rule"
	"github.com/politehttp/polite/limiter"
)

// maxPlans bounds the limits whose plans are kept. A program has a few; one that
// makes a limit for each request has them planned anew.
const maxPlans = 4096

// plans has the plan of each limit, by its pointer.
type plans struct {
	known sync.Map // *limiter.Limit → *plan
	n     atomic.Int64
}

func (p *plans) of(l *limiter.Limit) (*plan, error) {
	if known, ok := p.known.Load(l); ok {
		return known.(*plan), nil
	}
	made, err := planOf(l)
	if err != nil {
		return nil, err
	}
	if p.n.Add(1) > maxPlans {
		p.known.Clear()
		p.n.Store(1)
	}
	p.known.Store(l, made)
	return made, nil
}

// ends tells a script the periods of a calendar about now, as Redis knows no
// time zones.
type ends struct{ last atomic.Pointer[periods] }

type periods struct {
	from, to int64 // the period, in nanoseconds
	text     string
}

// about returns five ends of periods as the script wants them, three of them to
// come, at a time in nanoseconds.
func (e *ends) about(r *rule.Rule, now int64) string {
	if p := e.last.Load(); p != nil && p.from <= now && now < p.to {
		return p.text
	}
	all := make([]int64, 0, 16)
	for t := now - int64(100*24*time.Hour); len(all) < 5 || all[len(all)-3] <= now; {
		next, _ := r.Take(rule.State{}, t, 1)
		t = next.A
		all = append(all, t)
	}
	all = all[len(all)-5:]
	from, to := all[1], all[2]
	for i := range all {
		all[i] /= int64(time.Microsecond)
	}
	text := pack("", all...)
	e.last.Store(&periods{from, to, text})
	return text
}
