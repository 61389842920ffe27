// Package headerparse reads what an HTTP response says about limits, as values.
package headerparse

import (
	"net/http"
	"time"
)

// Unknown is the value of a number that was not told.
const Unknown = -1

// Limit is one limit as a response describes it.
type Limit struct {
	Name, Unit       string
	Quota, Remaining float64
	Reset, Window    time.Duration
}

// Signal is what one response says about limits.
type Signal struct {
	Status int
	Wait   time.Duration
	Told   bool
	Source string
	By     int
	Limits []Limit
}

// Parse reads what the response says.
func Parse(status int, h http.Header, now time.Time) Signal {
	return Signal{Status: status, By: -1}
}
