package bench

import "testing"

func BenchmarkOutbound(b *testing.B) {
	for _, q := range Questions {
		for _, s := range StacksFor(q) {
			b.Run(q.Name+"/"+s.Name, func(b *testing.B) {
				rt, r := s.Over(q.Base()), q.Request()
				b.ReportAllocs()
				for b.Loop() {
					if err := Call(rt, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
