//go:build !race

package main

import "time"

// period is how long TestTogether lasts.
const period = 12 * time.Second
