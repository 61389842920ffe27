// Package provider is an SMS provider as one meets them, small enough to run
// beside the program that calls it.
//
//	POST /messages {"id","from","to","text"}, Idempotency-Key: optional
//
//	  limits ──► fault? ──► key ──► process: ledger, fsync ──► fault? ──► answer
//	    429       503     409, 422,                          connection   200
//	                      or replay                          dropped
//
// It lets an account send 10 messages a second with a burst of 20, and a sender
// number 1 a second with a burst of 2. What is over gets 429 with Retry-After
// and a RateLimit field that names the limit, and costs nothing; everything
// else costs one message of both limits, 503 and replays too. Of every 16
// attempts one is answered 503 unprocessed; of every 15 processed messages one
// answer is lost, for the connection is dropped. A key that it knows gets the
// first answer again, marked Idempotent-Replayed: true; 409 while the first is
// still under way; 422 with another message.
//
// What it delivered stands in a ledger, which is appended to and synced before
// the answer, with the id from the message: a message that was processed twice
// stands there twice. All of its state is in its directory, so it may stop and
// be started again; only the limits begin anew.
package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/politehttp/polite/examples/sms/journal"
	"github.com/politehttp/polite/examples/sms/segments"
)

// Message is what a caller posts.
type Message struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
	Text string `json:"text"`
}

// Answer is what it gets: the message was accepted and is billed.
type Answer struct {
	ID       string `json:"id"`
	Segments int64  `json:"segments"`
}

// Provider is an http.Handler.
type Provider struct {
	faults   faults
	keys     keys
	ledger   *journal.Journal
	attempts *journal.Journal
	limits   *limits

	mu        sync.Mutex
	admitted  int // attempts that were not refused
	processed int // messages
}

// Open makes a provider with its state in dir, which goes on where the last one
// stopped. The seed decides what fails.
func Open(dir string, seed uint64) (*Provider, error) {
	limits, err := newLimits()
	if err != nil {
		return nil, err
	}
	p := &Provider{faults: faults{seed}, keys: keys{all: map[string]entry{}}, limits: limits}
	p.ledger, err = journal.Open(filepath.Join(dir, ledgerFile), true, func(d Delivery) {
		p.processed++
		if d.Key != "" {
			p.keys.finish(d.Key, d.Hash, Answer{ID: d.ID, Segments: d.Segments})
		}
	})
	if err != nil {
		return nil, err
	}
	p.attempts, err = journal.Open(filepath.Join(dir, attemptsFile), false, func(a Attempt) {
		if a.Status != http.StatusTooManyRequests {
			p.admitted++
		}
	})
	if err != nil {
		p.ledger.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the files.
func (p *Provider) Close() {
	p.ledger.Close()
	p.attempts.Close()
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/messages" {
		problem(w, http.StatusNotFound, "There is POST /messages only.")
		return
	}
	m, err := decode(w, r)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	refused, fails, err := p.admit(r.Context(), m.From)
	switch {
	case err != nil:
		problem(w, http.StatusInternalServerError, err.Error())
	case refused != nil:
		p.record(w, Attempt{From: m.From, Status: http.StatusTooManyRequests, Limit: refused.Limit}, func() { refuse(w, refused) })
	case fails:
		p.record(w, Attempt{From: m.From, Status: http.StatusServiceUnavailable}, func() {
			problem(w, http.StatusServiceUnavailable, "Try again later.")
		})
	default:
		p.deliver(w, m, strings.Trim(r.Header.Get("Idempotency-Key"), `"`))
	}
}

// admit takes from the limits and decides on the attempt's fate.
func (p *Provider) admit(ctx context.Context, sender string) (refused *Refusal, fails bool, err error) {
	if refused, err = p.limits.take(ctx, sender); refused != nil || err != nil {
		return refused, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.admitted++
	return nil, p.faults.fails(p.admitted - 1), nil
}

func (p *Provider) deliver(w http.ResponseWriter, m Message, key string) {
	hash := fingerprint(m)
	if key != "" {
		answer, state := p.keys.begin(key, hash)
		if state != fresh {
			p.again(w, m, answer, state)
			return
		}
	}
	time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond)) // the work that a message makes
	d := Delivery{ID: m.ID, From: m.From, Segments: segments.Count(m.Text), At: time.Now(), Key: key}
	if key != "" {
		d.Hash = hash
	}
	if err := p.ledger.Append(d); err != nil {
		p.keys.forget(key)
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	answer := Answer{ID: d.ID, Segments: d.Segments}
	if key != "" {
		p.keys.finish(key, hash, answer)
	}
	if p.drops() {
		p.record(w, Attempt{From: m.From}, func() { drop(w) })
		return
	}
	p.record(w, Attempt{From: m.From, Status: http.StatusOK}, func() { accept(w, answer) })
}

// again answers an attempt with a key that was there before.
func (p *Provider) again(w http.ResponseWriter, m Message, a Answer, state keyState) {
	switch state {
	case replayed:
		p.record(w, Attempt{From: m.From, Status: http.StatusOK}, func() {
			w.Header().Set("Idempotent-Replayed", "true")
			accept(w, a)
		})
	case running:
		p.record(w, Attempt{From: m.From, Status: http.StatusConflict}, func() {
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusConflict, "The first attempt with this key is still under way.")
		})
	default:
		p.record(w, Attempt{From: m.From, Status: http.StatusUnprocessableEntity}, func() {
			problem(w, http.StatusUnprocessableEntity, "This key came with another message before.")
		})
	}
}

func (p *Provider) drops() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.processed++
	return p.faults.drops(p.processed - 1)
}

// record counts the attempt and then answers it.
func (p *Provider) record(w http.ResponseWriter, a Attempt, answer func()) {
	a.At = time.Now()
	if err := p.attempts.Append(a); err != nil {
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	answer()
}

func decode(w http.ResponseWriter, r *http.Request) (Message, error) {
	var m Message
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&m); err != nil {
		return m, fmt.Errorf("the body is no message: %w", err)
	}
	for name, v := range map[string]string{"id": m.ID, "from": m.From, "to": m.To, "text": m.Text} {
		if v == "" {
			return m, fmt.Errorf("%s is empty", name)
		}
	}
	return m, nil
}

func accept(w http.ResponseWriter, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(a)
}

// refuse says no as draft-ietf-httpapi-ratelimit-headers-11 has it: all
// policies, the limit that refused, and Retry-After no earlier than its t.
func refuse(w http.ResponseWriter, r *Refusal) {
	wait := int(math.Ceil(r.Wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(wait))
	w.Header().Set("RateLimit", fmt.Sprintf(`"%s";r=0;t=%d`, r.Limit, wait))
	w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"account";q=%d;w=%d, "sender";q=%d;w=%d`,
		AccountBurst, AccountBurst/AccountRate, SenderBurst, SenderBurst/SenderRate))
	problem(w, http.StatusTooManyRequests, fmt.Sprintf("The limit of the %s is reached.", r.Limit))
}

// drop closes the connection in place of an answer.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the same, where a connection cannot be had
	}
	conn.Close()
}

// problem answers as RFC 9457 has it.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}

func fingerprint(m Message) string {
	text, _ := json.Marshal(m) // strings always marshal
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
