//go:build !race

package storetest

// raceDetector tells whether it is on, which makes everything many times slower.
const raceDetector = false
