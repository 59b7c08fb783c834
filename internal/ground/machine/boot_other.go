//go:build !linux && !darwin

package machine

// Boot returns an empty text: this system has no identity that is surely another one after each start.
func Boot() string { return "" }
