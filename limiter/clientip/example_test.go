package clientip_test

import (
	"fmt"
	"net/http/httptest"
	"net/netip"

	"github.com/politehttp/polite/limiter/clientip"
)

// A server behind two proxies. The client wrote a header of its own, to be
// taken for somebody else; the outer proxy appended whom it saw, and the inner
// proxy appended the outer one.
func Example() {
	src := &clientip.Source{
		Header:  "X-Forwarded-For",
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}
	if err := src.Check(); err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "8.8.8.8, 2001:db8:1:2::7, 10.0.0.2")
	fmt.Println(src.Addr(r))
	fmt.Println(src.Key(r))
	fmt.Println((*clientip.Source)(nil).Addr(r)) // without proxies
	// Output:
	// 2001:db8:1:2::7
	// 2001:db8:1:2::/64
	// 10.0.0.1
}
