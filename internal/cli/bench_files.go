package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/wsbouncer/wsbouncer/internal/lab/load/report"
)

// benchFiles are the files that a run of the bench command leaves behind.
type benchFiles []benchFile

type benchFile struct {
	flag  string
	file  *outputFile
	write func(*report.Report, io.Writer) error
}

// createFiles opens the files that the flags ask for.
func (f *benchFlags) createFiles() (files benchFiles, err error) {
	create := func(flag, name string, write func(*report.Report, io.Writer) error) {
		if name == "" || err != nil {
			return
		}
		var file *outputFile
		if file, err = openOutput(name, 0o666); err != nil {
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
	for _, f := range files {
		if err := f.file.write(func(w io.Writer) error { return f.write(r, w) }); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", f.flag, err))
		}
	}
	return errors.Join(errs...)
}

// discard leaves no files that were not written, because there was nothing to measure.
func (files benchFiles) discard() {
	for _, f := range files {
		f.file.discard()
	}
}
