// Package pacer decides when the next call may leave.
package pacer

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/politehttp/polite/headerparse"
)

type Rate struct {
	Count int64
	Per   time.Duration
}

func Per(count int64, d time.Duration) Rate { return Rate{count, d} }

func Within(limit int64, window time.Duration, burst int64) (Rate, error) { return Rate{}, nil }

type Shape int

const (
	TokenBucket Shape = iota
	LeakyBucket
)

type Priority int

const (
	Interactive Priority = iota
	Background
)

type Pacer struct {
	Rate        Rate
	Burst       int64
	Shape       Shape
	MaxInFlight int
	MaxQueue    int
	MaxWait     time.Duration
	MaxHold     time.Duration
	SpreadBelow float64
	MaxKeys     int
	Shared      Reserver
}

type Claim struct {
	Pacer *Pacer
	Key   string
	N     int64
}

type WaitError struct{ Wait time.Duration }

func (e *WaitError) Error() string { return "pacer: too long a wait" }
func (e *WaitError) Refused() bool { return true }

var (
	ErrQueueFull = errors.New("pacer: queue full")
	ErrTooLarge  = errors.New("pacer: too large")
)

func (p *Pacer) Wait(ctx context.Context, key string, n int64) (release func(), err error) {
	return func() {}, ctx.Err()
}

func WaitAll(ctx context.Context, claims ...Claim) (release func(), err error) {
	return func() {}, ctx.Err()
}
func (p *Pacer) SetRate(r Rate, burst int64)                                   {}
func (p *Pacer) Hold(key string, until time.Time)                              {}
func (p *Pacer) Observe(key string, s headerparse.Signal, now time.Time)       {}
func (p *Pacer) Reader(ctx context.Context, key string, r io.Reader) io.Reader { return r }
func WithPriority(ctx context.Context, class Priority) context.Context         { return ctx }

type Reserver interface {
	Reserve(ctx context.Context, key string, p Pace, n int64, maxWait time.Duration) (Grant, error)
	Hold(ctx context.Context, key string, d time.Duration) error
}

type Pace struct {
	Rate  Rate
	Burst int64
	Shape Shape
}

type Grant struct {
	Wait   time.Duration
	Cancel func(context.Context) error
}
