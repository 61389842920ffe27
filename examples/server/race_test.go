//go:build race

package main

import "time"

// period is how long TestTogether lasts, which takes as long as that with the
// race detector.
const period = 8 * time.Second
