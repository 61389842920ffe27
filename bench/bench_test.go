package bench

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	ActAsLoad()
	flag.Parse()
	Small = flag.Lookup("test.benchtime").Value.String() == "1x"
	os.Exit(m.Run())
}

func BenchmarkOutbound(b *testing.B)    { run(b, Outbound) }
func BenchmarkLoopback(b *testing.B)    { run(b, Loopback) }
func BenchmarkUploads(b *testing.B)     { run(b, Uploads) }
func BenchmarkParsing(b *testing.B)     { run(b, Parsing) }
func BenchmarkParts(b *testing.B)       { run(b, Parts) }
func BenchmarkPacing(b *testing.B)      { run(b, Pacing) }
func BenchmarkDecisions(b *testing.B)   { run(b, Decisions) }
func BenchmarkMemories(b *testing.B)    { run(b, Memories) }
func BenchmarkRedis(b *testing.B)       { run(b, Redis) }
func BenchmarkHandlers(b *testing.B)    { run(b, Handlers) }
func BenchmarkMiddlewares(b *testing.B) { run(b, Middlewares) }

func run(b *testing.B, g Group) {
	for _, q := range g.Questions {
		b.Run(q.Name, func(b *testing.B) {
			for _, s := range q.Sides {
				var measure func(*testing.B)
				end := func() {}
				b.Run(s.Name, func(b *testing.B) {
					if measure == nil {
						measure, end = s.Start()
						b.ResetTimer()
					}
					measure(b)
				})
				end()
			}
		})
	}
}
