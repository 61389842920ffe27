package headerparse

// harmlessNames are fields that most responses have, and that have nothing to
// do with limits.
var harmlessNames = [...]string{
	"Accept-Ranges", "Access-Control-Allow-Credentials", "Access-Control-Allow-Origin",
	"Access-Control-Expose-Headers", "Age", "Alt-Svc", "Cache-Control", "Cf-Cache-Status",
	"Cf-Ray", "Connection", "Content-Encoding", "Content-Language", "Content-Length", "Content-Security-Policy", "Content-Type", "Date", "Etag",
	"Expires", "Last-Modified", "Link", "Location", "Nel", "Pragma", "Referrer-Policy", "Report-To",
	"Server", "Server-Timing", "Set-Cookie", "Strict-Transport-Security", "Transfer-Encoding", "Vary",
	"Via", "X-Content-Type-Options", "X-Frame-Options", "X-Powered-By", "X-Request-Id", "X-Xss-Protection",
}

const harmlessPlaces = 128

// harmless has each of them in a place of its own, where one comparison finds
// it. To look at its letters would take several, of which the processor foresees
// none, for a map has its own order each time.
var harmless = func() (at [harmlessPlaces]string) {
	for _, name := range harmlessNames {
		at[harmlessPlace(name)] = name
	}
	return at
}()

func isHarmless(name string) bool {
	return len(name) > 1 && harmless[harmlessPlace(name)] == name
}

func harmlessPlace(name string) uint {
	n := len(name)
	return uint(n+3*int(name[0])+3*int(name[n/2])) % harmlessPlaces
}
