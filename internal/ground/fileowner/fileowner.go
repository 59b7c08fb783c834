// Package fileowner lets files that root creates belong to the users who need them: an administrator's command must not leave a file in the
// proxy's state directory that the proxy cannot open.
package fileowner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Create makes a new file for reading and writing. If root makes it in a directory of another user, it belongs to that user and to the
// directory's group. It is an error if the file exists.
func Create(path string, mode fs.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err == nil {
		GiveToDirectory(file)
	}
	return file, err
}

// GiveToDirectory gives a new file to the owner and the group of its directory, as Create does.
func GiveToDirectory(file *os.File) {
	if directory, err := os.Stat(filepath.Dir(file.Name())); err == nil && !rootOwns(directory) {
		Give(file, directory)
	}
}

// Mkdir makes a directory if it is missing. If root makes it in another user's directory, it belongs to that user.
func Mkdir(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	made, err := os.OpenFile(path, os.O_RDONLY|NoFollow, 0) // the other user may have put a link in its place
	if err != nil {
		return err
	}
	GiveToDirectory(made)
	return made.Close()
}

// Open opens a file for reading and writing as it is, and makes a missing one as Create does. Of symbolic links, only those that [Follow] follows
// lead on: the owner of the directory must not make root write elsewhere.
func Open(path string, mode fs.FileMode) (*os.File, error) {
	path, err := Follow(path)
	if err != nil {
		return nil, err
	}
	file, err := Create(path, mode)
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(path, os.O_RDWR|NoFollow, 0)
	}
	return file, err
}

// SyncDirectory has the disk take what was created, renamed or removed in a directory, as far as the system can say so.
func SyncDirectory(path string) {
	if directory, err := os.Open(path); err == nil {
		_ = directory.Sync()
		_ = directory.Close()
	}
}

// Write writes a file that exists, and is no symbolic link, anew. The disk has taken it when Write returns.
func Write(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|NoFollow, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}
