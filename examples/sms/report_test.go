package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/politehttp/polite/examples/sms/provider"
)

func TestWhatBecameOfTheRows(t *testing.T) {
	ledger := []provider.Delivery{
		{ID: "1", Segments: 2}, {ID: "2", Segments: 1}, {ID: "2", Segments: 1}, {ID: "5", Segments: 3},
	}
	done := map[int]outcome{1: {Row: 1}, 2: {Row: 2}, 3: {Row: 3}, 4: {Row: 4, Rejected: "422"}}
	assert.Equal(t, sums{
		rows: 6, accepted: 3, rejected: 1, pending: 2, ledger: true,
		delivered: 3, twice: 1, lost: 1, known: 1, billed: 7,
	}, add(rowsOf("aabbcc"), ledger, done), "1 once, 2 twice, 3 lost, 4 rejected, 5 without its answer, 6 pending")
	assert.Equal(t, sums{rows: 6, accepted: 3, rejected: 1, pending: 2}, add(rowsOf("aabbcc"), nil, done), "without a ledger nothing is lost")
	assert.Equal(t, 6, add(rowsOf("aabbcc"), []provider.Delivery{}, nil).pending)
}

func TestIdeal(t *testing.T) {
	of := func(attempts ...any) (all []provider.Attempt) { // how many, of whom
		for i := 0; i < len(attempts); i += 2 {
			for range attempts[i].(int) {
				all = append(all, provider.Attempt{From: attempts[i+1].(string), Status: 200})
			}
		}
		return all
	}
	for _, c := range []struct {
		attempts []provider.Attempt
		want     time.Duration
	}{
		{nil, 0},
		{of(2, "a"), 0},
		{of(3, "a"), time.Second},
		{of(12, "a", 3, "b"), 10 * time.Second},
		{of(20, "a", 20, "b", 20, "c", 20, "d", 20, "e", 20, "f", 20, "g", 20, "h", 20, "i", 20, "j", 20, "k", 3, "l"), 20300 * time.Millisecond},
		{append(of(3, "a"), provider.Attempt{From: "a", Status: 429}, provider.Attempt{From: "a", Status: 503}), 2 * time.Second},
	} {
		assert.InDelta(t, c.want, count(c.attempts).ideal(), 1, "%d attempts", len(c.attempts))
	}
}

// The quota is corrected only by what shows that an earlier call was billed.
func TestSegmentsBilled(t *testing.T) {
	for _, c := range []struct {
		replayed string
		tries    int64
		want     int64
	}{
		{"", 1, 3}, {"", 2, 3}, {"true", 2, 3}, {"true", 1, 0},
	} {
		d := &delivery{sender: "a", segments: 3}
		d.tries.Store(c.tries)
		body := &unreadable{t: t}
		r, _ := http.NewRequestWithContext(withDelivery(t.Context(), d), http.MethodPost, "http://x", body)
		assert.Equal(t, "a", senderOf(r))
		assert.EqualValues(t, 3, segmentsOf(r))
		resp := &http.Response{Request: r, Body: body, Header: http.Header{"Idempotent-Replayed": {c.replayed}}}
		assert.Equal(t, c.want, segmentsBilled(resp))
	}
}

// unreadable is a body that is not for us.
type unreadable struct{ t *testing.T }

func (u *unreadable) Read([]byte) (int, error) { u.t.Error("the body was read"); return 0, nil }
func (u *unreadable) Close() error             { return nil }

func TestTableIsAligned(t *testing.T) {
	var b strings.Builder
	table{&b}.sums(sums{rows: 300, ledger: true, delivered: 299, pending: 2, known: 1, billed: 1000})
	assert.Equal(t, ""+
		"  delivered                     299   of 300\n"+
		"  delivered twice                 0\n"+
		"  lost                            0\n"+
		"  pending                         2   run again with the same --job; 1 of them delivered, the answer is still to come\n"+
		"  segments billed              1000\n", b.String())
}
