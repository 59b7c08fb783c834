//go:build !race

package faults

// raceDetector tells whether the tests run with the race detector.
const raceDetector = false
