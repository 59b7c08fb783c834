//go:build race

package wstest

// Race reports whether the tests run with the race detector.
const Race = true
