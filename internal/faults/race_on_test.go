//go:build race

package faults

// raceDetector tells whether the tests run with the race detector, which makes everything in the process several times slower.
const raceDetector = true
