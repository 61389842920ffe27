// Package limiter decides who may do how much: the provider's end of rate
// limiting.
package limiter
