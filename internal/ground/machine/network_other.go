//go:build !linux && !darwin

package machine

// NetworkFile returns an empty text: which file system a folder is on is not known here.
func NetworkFile(string) string { return "" }
