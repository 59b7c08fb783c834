//go:build !unix

package fileowner

import (
	"io/fs"
	"os"
)

// Group returns nothing: this system has no such groups.
func Group(string) string { return "" }

// SameRights reports whether two files, or one at two times, have the same permissions.
func SameRights(a, b fs.FileInfo) bool { return a.Mode() == b.Mode() }

// Give does nothing: this system has no root.
func Give(*os.File, fs.FileInfo) {}

func rootOwns(fs.FileInfo) bool { return true }
