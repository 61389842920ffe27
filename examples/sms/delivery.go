package main

import (
	"context"
	"net/http"
	"sync/atomic"
)

// delivery is what pace and quota must know of a call. It travels in the
// request's context: the body is for the provider, and whoever reads it on the
// way has consumed it.
type delivery struct {
	sender   string
	segments int64
	tries    atomic.Int64
}

type deliveryKey struct{}

func withDelivery(ctx context.Context, d *delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

func deliveryOf(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}

// senderOf is the key of the pace of one number.
func senderOf(r *http.Request) string { return deliveryOf(r.Context()).sender }

// segmentsOf is what a call costs of the quota.
func segmentsOf(r *http.Request) int64 { return deliveryOf(r.Context()).segments }

// segmentsBilled corrects it by the answer: what the first try of a call finds
// answered already was billed to an earlier call of the same row, one of those
// whose end was uncertain and which stayed spent.
func segmentsBilled(resp *http.Response) int64 {
	d := deliveryOf(resp.Request.Context())
	if resp.Header.Get("Idempotent-Replayed") == "true" && d.tries.Load() == 1 {
		return 0
	}
	return d.segments
}
