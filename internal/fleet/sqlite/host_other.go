//go:build !linux && !darwin

package sqlite

// bootID returns an empty text: this system has none that is surely another one after each boot.
func bootID() string { return "" }

// networkFilesystem returns an empty text: it is not known here.
func networkFilesystem(string) string { return "" }
