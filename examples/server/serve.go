package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// running is a server that answers: the API on the address asked for, and the
// page for those who run it on loopback.
type running struct {
	*server
	url, adminURL string
	stopped       chan error // once for each of both
	both          []*http.Server
}

func start(address string) (*running, error) {
	public, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	private, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		public.Close()
		return nil, err
	}
	r := &running{url: "http://" + public.Addr().String(), adminURL: "http://" + private.Addr().String(), stopped: make(chan error, 2)}
	if r.server, err = newServer(r.url); err != nil {
		public.Close()
		private.Close()
		return nil, err
	}
	r.answer(public, r.api)
	r.answer(private, r.admin)
	return r, nil
}

func (r *running) answer(l net.Listener, h http.Handler) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	r.both = append(r.both, s)
	go func() { r.stopped <- s.Serve(l) }()
}

// stop ends both, and says what ended one of them before.
func (r *running) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, s := range r.both {
		if s.Shutdown(ctx) != nil {
			s.Close()
		}
	}
	var err error
	for range r.both {
		if e := <-r.stopped; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// serve answers until ctx ends.
func serve(ctx context.Context, address string, out io.Writer) error {
	r, err := start(address)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `The API is at %[1]s until ctrl-C. Try

  curl -i %[1]s/parcels/7
  curl -u ada.pro.eu:%[3]s -X POST %[1]s/login
  curl -i -H 'Authorization: Bearer …' %[1]s/export

Ada is also at ada.free.eu, ada.business.us and so on, and so is Bob.

  %[1]s/policies   the limits: a page in a browser, or JSON
  %[2]s/monitor   who is refused; not for the public
`, r.url, r.adminURL, password)
	select {
	case err = <-r.stopped:
		r.stopped <- err
	case <-ctx.Done():
	}
	return r.stop()
}
