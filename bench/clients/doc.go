// Package clients holds the tests of the clients that return to their sessions (../../clients), in Python, Node and Chromium, against a
// proxy behind Toxiproxy. There is nothing to import here.
package clients
