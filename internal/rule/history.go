package rule

// History is what SlidingLog and SlidingBuckets remember of one key. The zero
// History is that of a key never seen. The verbs of a Rule over a History come
// in pairs, as a stack of limits has to ask all before it charges any.
type History struct {
	entries []entry
	total   int64
}

type entry struct{ at, units int64 }

// NewSlidingLog admits quota units in any window, in nanoseconds.
func NewSlidingLog(quota, window int64) (*Rule, error) {
	return &Rule{kind: SlidingLog, quota: quota, window: window, cell: 1}, nil
}

// NewSlidingBuckets is NewSlidingLog with one count for each of cells parts of
// the window.
func NewSlidingBuckets(quota, window int64, cells int) (*Rule, error) {
	return &Rule{kind: SlidingBuckets, quota: quota, window: window, cells: cells}, nil
}

// Ask says what Charge would do with cost, and changes nothing that can be
// seen: it may forget what has expired. h may be nil: a key never seen.
func (r *Rule) Ask(h *History, now, cost int64) Verdict { panic("later") }

// Charge enters a cost that Ask has just admitted at the same instant.
func (r *Rule) Charge(h *History, now, cost int64) { panic("later") }

// Return gives back cost units, the latest first, as far as that many are in use.
func (r *Rule) Return(h *History, now, cost int64) { panic("later") }

// Blank reports whether h equals new and may be forgotten.
func (r *Rule) Blank(h *History, now int64) bool { panic("later") }

// FreshAt returns the instant from which h equals new, whatever the time is.
func (r *Rule) FreshAt(h *History) int64 { panic("later") }

// Bytes returns the size of h in memory, itself included.
func (h *History) Bytes() int { return 32 + 16*cap(h.entries) }
