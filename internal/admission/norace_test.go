//go:build !race

package admission

import "testing"

func large(*testing.T) {}
