package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// account is a customer: ada.pro.us is Ada's, on the plan pro, in the region us.
type account struct{ name, plan, region string }

const password = "sesame" // of every account

// accounts are the customers, and how they prove who they are: by a token that
// POST /login gave them. It is a signature of the name, so there is no table of
// sessions that somebody could fill.
type accounts struct {
	byName map[string]*account
	secret [32]byte
}

func newAccounts() *accounts {
	a := &accounts{byName: map[string]*account{}}
	rand.Read(a.secret[:])
	for _, person := range []string{"ada", "bob"} {
		for _, plan := range []string{"free", "pro", "business"} {
			for _, region := range []string{"eu", "us"} {
				name := strings.Join([]string{person, plan, region}, ".")
				a.byName[name] = &account{name: name, plan: plan, region: region}
			}
		}
	}
	return a
}

func (a *accounts) token(name string) string {
	mac := hmac.New(sha256.New, a.secret[:])
	mac.Write([]byte(name))
	return name + ":" + hex.EncodeToString(mac.Sum(nil))
}

// login answers a name and password (HTTP Basic) with a token.
func (a *accounts) login(w http.ResponseWriter, r *http.Request) {
	name, pass, _ := r.BasicAuth()
	if a.byName[name] == nil || !hmac.Equal([]byte(pass), []byte(password)) {
		http.Error(w, "no such name and password", http.StatusUnauthorized)
		return
	}
	answer(w, map[string]string{"token": a.token(name)})
}

type accountKey struct{}

// known finds out once who asks, before any limit is looked at, and is cheap: a
// false token must cost the server next to nothing.
func (a *accounts) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		name, _, _ := strings.Cut(token, ":")
		if one := a.byName[name]; one != nil && hmac.Equal([]byte(token), []byte(a.token(name))) {
			r = r.WithContext(context.WithValue(r.Context(), accountKey{}, one))
		}
		next.ServeHTTP(w, r)
	})
}

// accountOf is who asks, or nil.
func accountOf(r *http.Request) *account {
	one, _ := r.Context().Value(accountKey{}).(*account)
	return one
}

func signedIn(r *http.Request) bool  { return accountOf(r) != nil }
func anonymous(r *http.Request) bool { return accountOf(r) == nil }

func userName(r *http.Request) string {
	if a := accountOf(r); a != nil {
		return a.name
	}
	return ""
}
