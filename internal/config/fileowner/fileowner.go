// Package fileowner lets files that root makes belong to those who use them: an administrator's command must not leave a file in the
// proxy's state directory that the proxy cannot open.
package fileowner

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Create makes a new file for reading and writing. If root makes it in a directory of another user, it belongs to that user and to the
// directory's group. It is an error if the file exists.
func Create(path string, mode fs.FileMode) (*os.File, error) {
	directory, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err == nil && !rootOwns(directory) {
		Give(file, directory)
	}
	return file, err
}
