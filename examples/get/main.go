// Command get fetches a URL politely and prints it.
//
//	go run ./examples/get https://example.com
//
// Without a URL it asks a server of its own, which says no at first.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/politehttp/polite"
)

func main() {
	client := &http.Client{Transport: polite.NewTransport(nil)}
	resp, err := client.Get(address())
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	io.Copy(os.Stdout, resp.Body)
}
