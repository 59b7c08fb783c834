package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
)

// outputFile is a file that a long run leaves behind. It is opened before the run, so that a path that cannot be written to costs no measurement. What
// is in it stays until there is something better.
type outputFile struct {
	file    *os.File // nil once written or discarded
	created string   // the path of a file that was not there before; empty for one that was
}

// openOutput opens a file, and creates it if it is missing.
func openOutput(name string, mode fs.FileMode) (*outputFile, error) {
	path, err := fileowner.Follow(name)
	if err != nil {
		return nil, err
	}
	o := &outputFile{}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		o.created = path
	}
	o.file, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// write replaces the content by what f writes.
func (o *outputFile) write(f func(io.Writer) error) error {
	file := o.file
	o.file = nil
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() { // devices and pipes have no content
		err = file.Truncate(0)
	}
	if err == nil {
		err = f(file)
	}
	return errors.Join(err, file.Close())
}

// discard closes a file that was not written, and removes it if it was not there before. A nil pointer is for no file.
func (o *outputFile) discard() {
	if o == nil || o.file == nil {
		return
	}
	_ = o.file.Close()
	o.file = nil
	if o.created != "" {
		_ = os.Remove(o.created)
	}
}
