// Package integration holds the client against peers of another make: nginx's
// limiters, express-rate-limit on Node.js, and a network that fails. It has
// tests only.
//
// They start what they need on free loopback ports, run side by side and stop
// what they started. Where a program is missing they skip and say how to get
// it; with CI=true in the environment they fail instead.
package integration
