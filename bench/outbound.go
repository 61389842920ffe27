package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/politehttp/polite"
	"github.com/politehttp/polite/idempotency"
)

// Outbound asks what a client adds to a base that answers from memory.
var Outbound = Group{"Outbound", []Question{
	outbound("GET", func() *Base { return &Base{} }, Get),
	outbound("GET, 8 header fields", func() *Base { return &Base{Header: Header8()} }, Get),
	outbound("POST 1 KiB", func() *Base { return &Base{} }, Post),
	outbound("GET failing twice", func() *Base { return &Base{Fail: 2} }, Get),
	outbound("POST 1 KiB failing twice", func() *Base { return &Base{Fail: 2} }, Post),
}}

func outbound(name string, base func() *Base, request func() *http.Request) Question {
	q := Question{Name: name, Base: "bare", Added: true}
	for _, s := range Stacks {
		q.Sides = append(q.Sides, Side{s.Name, func() (func(*testing.B), func()) {
			rt, r := s.Over(base()), request()
			if base := base(); base.Fail > 0 && (s.Name == "bare" || s.Name == "passes through") {
				rt = again{rt} // or it would not do what is asked
			}
			if ours, ok := rt.(*polite.Transport); ok && r.Method == http.MethodPost {
				ours.Keys = &idempotency.Keys{} // as it would be used: without, a POST is not tried again
			}
			return serial(func() {
				if err := Call(rt, r); err != nil {
					panic(err)
				}
			}), func() {}
		}})
	}
	return q
}

// Get and Post make the requests.
func Get() *http.Request {
	r, _ := http.NewRequest("GET", "http://api.test/v1/things", nil)
	return r
}

var payload = bytes.Repeat([]byte("x"), 1024)

// Post makes a request with a body of 1 KiB that can be rewound.
func Post() *http.Request {
	r, _ := http.NewRequest("POST", "http://api.test/v1/things", bytes.NewReader(payload))
	return r
}

// Call sends one request, wants success, and closes the answer.
func Call(rt http.RoundTripper, r *http.Request) error {
	if r.GetBody != nil {
		r.Body, _ = r.GetBody()
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.Body.Close()
}

// Base answers from memory: after Fail failures with status 500, one success.
type Base struct {
	Header http.Header
	Fail   int
	n      int
}

// RoundTrip reads the body as a transport would, and answers.
func (b *Base) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	status := http.StatusOK
	if b.Fail > 0 {
		if b.n++; b.n%(b.Fail+1) != 0 {
			status = http.StatusInternalServerError
		}
	}
	return &http.Response{StatusCode: status, Header: b.Header, Body: http.NoBody, Request: r}, nil
}

// Header8 is a response header of eight fields without a limit among them.
func Header8() http.Header {
	return http.Header{
		"Date":                   {"Sun, 01 Mar 2026 12:00:00 GMT"},
		"Content-Type":           {"application/json"},
		"Content-Length":         {"512"},
		"Connection":             {"keep-alive"},
		"Cache-Control":          {"no-cache"},
		"Etag":                   {`"33a64df551425fcc55e4d42a148795d9f25f89d4"`},
		"Vary":                   {"Accept-Encoding"},
		"X-Content-Type-Options": {"nosniff"},
	}
}
