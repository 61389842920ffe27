package lab

import (
	"fmt"
	"math"
)

// A Figure is a number that must be within a bound.
type Figure struct {
	Name  string  `json:"name"`
	Got   float64 `json:"got"`
	Unit  string  `json:"unit"`
	Bound string  `json:"bound"` // "≥ 98"
	OK    bool    `json:"ok"`
}

// atMost, atLeast, exactly and between make a Figure. A number that is none
// holds in no bound.
func atMost(name string, got, bound float64, unit string) Figure {
	return Figure{name, got, unit, "≤ " + number(bound), got <= bound}
}

func atLeast(name string, got, bound float64, unit string) Figure {
	return Figure{name, got, unit, "≥ " + number(bound), got >= bound}
}

func exactly(name string, got, want float64, unit string) Figure {
	return Figure{name, got, unit, "= " + number(want), math.Abs(got-want) < 1e-9}
}

func between(name string, got, low, high float64, unit string) Figure {
	return Figure{name, got, unit, fmt.Sprintf("%s to %s", number(low), number(high)), got >= low && got <= high}
}
