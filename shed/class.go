package shed

import "strings"

// Class says how much it matters that a request is served, and so who is let in
// first and given up last when there is not room for all. The four are those of
// the SRE book, chapter 21; a smaller number matters more. Values beyond the
// four count as the nearest.
type Class int

// The classes. The zero value is Critical.
const (
	CriticalPlus  Class = -1 // its loss is grave and seen at once: paying, signing in
	Critical      Class = 0  // its loss is seen by users
	SheddablePlus Class = 1  // batches that try again in minutes: some may be missing
	Sheddable     Class = 2  // all may be missing for a while: prefetching, reports
)

var classNames = [...]string{"critical-plus", "critical", "sheddable-plus", "sheddable"}

// String is the name of the class, as it stands in a header field.
func (c Class) String() string { return classNames[c.clamped()-CriticalPlus] }

func (c Class) clamped() Class { return min(max(c, CriticalPlus), Sheddable) }

// lower is the class below.
func (c Class) lower() Class { return (c.clamped() + 1).clamped() }

// parseClass reads a class as a peer sends it. What is no name of one is none.
func parseClass(s string) (Class, bool) {
	for i, name := range classNames {
		if strings.EqualFold(s, name) {
			return Class(i) + CriticalPlus, true
		}
	}
	return 0, false
}
