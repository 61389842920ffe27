package quota

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkSpend(b *testing.B) {
	for _, keys := range []int{1, 1000} {
		b.Run(strconv.Itoa(keys)+"keys", func(b *testing.B) {
			q := &Quota{Name: "q", Limit: 1 << 60, Period: Day}
			names := make([]string, keys)
			for i := range names {
				names[i] = strconv.Itoa(i)
			}
			ctx := context.Background()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := q.Spend(ctx, names[i%keys], 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFileStore shows what sharing a sync is worth: the time is per call.
func BenchmarkFileStore(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(strconv.Itoa(callers)+"callers", func(b *testing.B) {
			s, err := OpenFile(filepath.Join(b.TempDir(), "quota"))
			require.NoError(b, err)
			q := &Quota{Name: "q", Limit: 1 << 60, Period: Day, Store: s}
			b.SetParallelism(callers) // times GOMAXPROCS
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := q.Spend(context.Background(), "a", 1); err != nil {
						b.Error(err)
					}
				}
			})
			require.NoError(b, s.Close())
		})
	}
}
