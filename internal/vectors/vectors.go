// Package vectors reads the decisions that every implementation of the limits
// must make, for tests.
package vectors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Limit is a limit as the vectors write it.
type Limit struct {
	Name      string
	Algorithm string
	Params    struct {
		Limit    int64
		Window   time.Duration `json:"window_ns"`
		Aligned  bool
		Cells    int
		Burst    int64
		Capacity int64
		Count    int64
		Period   time.Duration `json:"period_ns"`
	}
}

// A Case is requests to one key of one limit.
type Case struct {
	Limit
	Steps []Step
}

// A Step is a request, and what becomes of it.
type Step struct {
	At        int64 `json:"t_ns"` // since 1970
	Cost      int64
	Allowed   bool
	Remaining int64
	Retry     *time.Duration `json:"retry_after_ns"` // nil: never
	Reset     time.Duration  `json:"reset_after_ns"`
	Delay     time.Duration  `json:"delay_ns"`
}

// A StackCase is requests to several limits and keys at once.
type StackCase struct {
	Name   string
	Limits []Limit
	Steps  []StackStep
}

// A StackStep is a request, and what becomes of it.
type StackStep struct {
	At      int64    `json:"t_ns"` // since 1970
	Charges []Charge // in this order
	Allowed bool
	Never   bool
	Retry   *time.Duration `json:"retry_after_ns"`
	By      []int          // the limits that refuse longest: any may be named

	Remaining []int64         // per charge; only in cases of our own
	Reset     []time.Duration `json:"reset_after_ns"`
	Delay     time.Duration   `json:"delay_ns"`
}

// A Charge is units of one limit and key.
type Charge struct {
	Limit int // its index
	Key   string
	Cost  int64
}

// UnmarshalJSON reads an array of the three.
func (c *Charge) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&c.Limit, &c.Key, &c.Cost})
}

// Cases returns all cases on one limit.
func Cases(t testing.TB) []Case {
	t.Helper()
	var cases []Case
	read(t, "limiters.json", &cases)
	decisions := 0
	for _, c := range cases {
		decisions += len(c.Steps)
	}
	require.Len(t, cases, 101)
	require.Equal(t, 5923, decisions)
	return cases
}

// Stacks returns all cases on several limits, the same limit and key twice among
// them, and a queue beside sliding buckets.
func Stacks(t testing.TB) []StackCase {
	t.Helper()
	var all []StackCase
	for _, file := range []struct {
		name             string
		cases, decisions int
	}{
		{"stacks.json", 40, 2388},
		{"stacks_own.json", 4, 32},
	} {
		var cases []StackCase
		read(t, file.name, &cases)
		decisions := 0
		for _, c := range cases {
			decisions += len(c.Steps)
		}
		require.Len(t, cases, file.cases)
		require.Equal(t, file.decisions, decisions)
		all = append(all, cases...)
	}
	return all
}

// read reads a file's cases. They lie with limiter, which they are about.
func read(t testing.TB, name string, cases any) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../limiter/testdata", name))
	require.NoError(t, err)
	file := struct{ Cases any }{cases}
	require.NoError(t, json.Unmarshal(text, &file))
}
