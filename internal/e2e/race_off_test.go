//go:build unix && !race

package e2e

// raceDetector tells whether the tests, and so the binary under test, run with the race detector.
const raceDetector = false
