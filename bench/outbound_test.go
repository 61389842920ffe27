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

func BenchmarkUpload(b *testing.B) {
	for _, s := range Uploaders {
		b.Run(s.Name, func(b *testing.B) {
			b.ReportAllocs()
			most := int64(0)
			for b.Loop() {
				peak, err := Upload(s)
				if err != nil {
					b.Skip(err) // a peer that cannot
				}
				most = max(most, peak)
			}
			b.ReportMetric(float64(most)/(1<<20), "peak-MiB")
		})
	}
}
