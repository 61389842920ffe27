//go:build !race

package gradient

import "testing"

func large(*testing.T) {}
