// Package shed bounds how much is done at once. It is the provider's end under
// overload: what a server cannot serve in time it refuses at the door, so that
// what it does serve is served in time.
package shed
