//go:build !unix

package bench

import "time"

// processorTime is not known here; figures made from it are zero.
func processorTime() time.Duration { return 0 }
