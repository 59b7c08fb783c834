//go:build !unix

package file

// isReadOnlySystem reports whether the error is that of a file system that is mounted read-only.
func isReadOnlySystem(error) bool { return false }
