//go:build !linux && !darwin

package sqlite

// networkFilesystem returns an empty text: it is not known here.
func networkFilesystem(string) string { return "" }
