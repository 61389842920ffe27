package headerparse

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// received is when the responses of these tests arrive, and dated the Date
// field of a server whose clock agrees.
var received = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const dated = "Date: Sun, 01 Mar 2026 12:00:00 GMT"

// head makes a header of lines such as "Retry-After: 5".
func head(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		h.Add(name, strings.TrimPrefix(value, " "))
	}
	return h
}

// summary writes a Signal on one line, the unknown left out:
//
//	30s Retry-After by 0 | requests(requests) 0/60 reset 30s window 1m0s
func summary(s Signal) string {
	var b strings.Builder
	if s.Told {
		fmt.Fprintf(&b, "%v %s", s.Wait, s.Source)
	} else {
		b.WriteString("nothing")
	}
	if s.By >= 0 {
		fmt.Fprintf(&b, " by %d", s.By)
	}
	for _, l := range s.Limits {
		b.WriteString(" |")
		if l.Name != "" {
			b.WriteString(" " + l.Name)
		}
		if l.Unit != "" {
			b.WriteString("(" + l.Unit + ")")
		}
		fmt.Fprintf(&b, " %s/%s", number64(l.Remaining), number64(l.Quota))
		if l.Reset != Unknown {
			fmt.Fprintf(&b, " reset %v", l.Reset)
		}
		if l.Window != Unknown {
			fmt.Fprintf(&b, " window %v", l.Window)
		}
	}
	return b.String()
}

func number64(v float64) string {
	if v == Unknown {
		return "?"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
