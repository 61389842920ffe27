package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/politehttp/polite/limiter"
)

// How long the work of an answer takes.
const (
	readTakes   = 15 * time.Millisecond
	exportTakes = 120 * time.Millisecond
)

// server is the API for everybody, and a page for those who run it.
type server struct {
	api   http.Handler
	admin http.Handler // not for the public: it names those who are refused most
	rules *rules
}

// newServer makes the API that is to be found at url.
func newServer(url string) (*server, error) {
	rules, err := newRules()
	if err != nil {
		return nil, err
	}
	store := &limiter.Memory{}
	monitor := &limiter.Monitor{Memory: store}
	guard := &limiter.Guard{
		Store:   store,
		Rules:   rules.list(),
		Hooks:   monitor.Hooks(),
		Title:   "How much you may call",
		URL:     url,
		Contact: "mailto:api@parcels.example",
	}
	if err := guard.Check(); err != nil {
		return nil, err
	}
	accounts := newAccounts()
	work := http.NewServeMux()
	work.HandleFunc("POST /login", accounts.login)
	work.HandleFunc("GET /parcels/{id}", parcel)
	work.HandleFunc("GET /export", export)

	api := http.NewServeMux()
	api.Handle("/", accounts.known(guard.Handler(work)))
	api.Handle("GET /policies", guard.Policies()) // may always be read
	admin := http.NewServeMux()
	admin.Handle("GET /monitor", monitor)
	return &server{api: api, admin: admin, rules: rules}, nil
}

// parcel is cheap, and open to all.
func parcel(w http.ResponseWriter, r *http.Request) {
	time.Sleep(readTakes)
	answer(w, map[string]string{"parcel": r.PathValue("id"), "state": "on its way"})
}

// export is dear, and for customers only.
func export(w http.ResponseWriter, r *http.Request) {
	if anonymous(r) {
		http.Error(w, "sign in first", http.StatusUnauthorized)
		return
	}
	time.Sleep(exportTakes)
	answer(w, map[string]int{"parcels": 12_345})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
