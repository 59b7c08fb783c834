//go:build !unix

package fileowner

// NoFollow is for systems that know it.
const NoFollow = 0

// Follow returns the path: this system has no root.
func Follow(path string) (string, error) { return path, nil }
