package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
)

// address is the URL on the command line, or else that of a server on loopback
// which answers the first request with 429 and a wait of a second.
func address() string {
	flag.Parse()
	if flag.NArg() > 0 {
		return flag.Arg(0)
	}
	var requests atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprintf(w, "Hello! This is request %d; the first came too soon.\n", requests.Load())
	})).URL
}
