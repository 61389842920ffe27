package provider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/politehttp/polite/examples/sms/provider"
)

func Example() {
	dir, err := os.MkdirTemp("", "provider")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	p, err := provider.Open(dir, 2)
	if err != nil {
		panic(err)
	}
	defer p.Close()

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/messages", strings.NewReader(`{"id":"m-1","from":"+447700900101","to":"+447700900001","text":"Hello"}`))
		r.Header.Set("Idempotency-Key", "spring-1")
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		fmt.Print(w.Code, " replayed: ", w.Header().Get("Idempotent-Replayed"), " ", w.Body)
	}
	ledger, _ := provider.Ledger(dir)
	fmt.Println("delivered:", len(ledger))
	// Output:
	// 200 replayed:  {"id":"m-1","segments":1}
	// 200 replayed: true {"id":"m-1","segments":1}
	// delivered: 1
}
