package provider

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Serve answers on the listener until somebody posts to /stop, nobody has come
// for idle, or ctx ends. GET /job says whose state it keeps.
func (p *Provider) Serve(ctx context.Context, l net.Listener, job string, idle time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begin := time.Now()
	var last atomic.Int64 // since begin
	mux := http.NewServeMux()
	mux.Handle("/", p)
	mux.HandleFunc("GET /job", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(job)) })
	mux.HandleFunc("POST /stop", func(http.ResponseWriter, *http.Request) { stop() })
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(int64(time.Since(begin)))
		mux.ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	for {
		rest := idle - time.Since(begin) + time.Duration(last.Load())
		if rest <= 0 {
			stop()
		}
		select {
		case err := <-served:
			return err
		case <-time.After(rest):
		case <-ctx.Done():
			grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if err := server.Shutdown(grace); err != nil {
				server.Close()
			}
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}
	}
}
