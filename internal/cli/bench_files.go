package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
	"github.com/wsbouncer/wsbouncer/internal/lab/load/report"
)

// benchFiles are the files that a run of the bench command leaves behind. They are created before the run, so that a path
// that cannot be written to costs no measurement.
type benchFiles []benchFile

type benchFile struct {
	flag  string
	file  *os.File // nil once written
	write func(*report.Report, io.Writer) error
}

// createFiles creates the files that the flags ask for.
func (f *benchFlags) createFiles() (files benchFiles, err error) {
	create := func(flag, name string, write func(*report.Report, io.Writer) error) {
		if name == "" || err != nil {
			return
		}
		var file *os.File
		if _, err = fileowner.Follow(name); err == nil {
			file, err = os.Create(name)
		}
		if err != nil {
			err = fmt.Errorf("--%s: %w", flag, err)
			return
		}
		files = append(files, benchFile{flag, file, write})
	}
	create("series", f.series, func(r *report.Report, w io.Writer) error { return r.Series(w, f.series) })
	create("report", f.report, (*report.Report).HTML)
	if err != nil {
		files.discard()
	}
	return files, err
}

// write writes all files.
func (files benchFiles) write(r *report.Report) error {
	var errs []error
	for i := range files {
		f := &files[i]
		if err := errors.Join(f.write(r, f.file), f.file.Close()); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", f.flag, err))
		}
		f.file = nil
	}
	return errors.Join(errs...)
}

// discard removes the files that were not written, because there was nothing to measure.
func (files benchFiles) discard() {
	for _, f := range files {
		if f.file != nil {
			_ = f.file.Close()
			_ = os.Remove(f.file.Name())
		}
	}
}
