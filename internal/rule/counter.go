package rule

func (r *Rule) takeCounter(s State, now, cost int64) (State, Verdict) { panic("later") }

func (r *Rule) refundCounter(s State, now, cost int64) State { panic("later") }

// NewSlidingCounter admits while the units of this window, plus those of the
// window before in proportion to how much of it lies within the last window's
// length, stay below quota.
func NewSlidingCounter(quota, window int64) (*Rule, error) {
	if err := checkWindow(quota, window); err != nil {
		return nil, err
	}
	return &Rule{kind: SlidingCounter, quota: quota, window: window, per: newDivisor(window)}, nil
}
