//go:build race

package wstest

// Race tells whether the tests run with the race detector.
const Race = true
