// Package e2e holds the tests that use wsbouncer as its users do: they run the binary, with real clients on one side of
// it and servers on the other, and look at nothing but sockets, output and exit status. There is nothing to import here.
package e2e
