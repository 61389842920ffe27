package clientip

import "testing"

func BenchmarkAddr(b *testing.B) {
	r := request(proxy, xff, "8.8.8.8, 203.0.113.7, 10.0.0.2")
	r.Header.Set("Forwarded", `for=8.8.8.8, for="[2001:db8::1]:99";proto=https, for=10.0.0.2`)
	for name, src := range map[string]*Source{
		"connection":      nil,
		"X-Forwarded-For": {Header: xff, Trusted: proxies},
		"Forwarded":       {Header: "Forwarded", Trusted: proxies},
		"hops":            {Header: xff, Hops: 2},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				src.Addr(r)
			}
		})
	}
}
