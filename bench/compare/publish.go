//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// docs is the folder of the results of the whole plan. README's numbers come from there.
const docs = "docs/internals"

// publish prints the tables and writes the report into a folder.
func publish(r *results.Report, folder string) error {
	fmt.Print(r.Tables())
	all, err := files(r, folder)
	for _, f := range all {
		err = cmp.Or(err, os.MkdirAll(filepath.Dir(f.path), 0o755), os.WriteFile(f.path, []byte(f.content), 0o644))
	}
	fmt.Printf("report: %s\n", filepath.Join(folder, "benchmarks.md"))
	return err
}

// file is a file that is made of a report.
type file struct{ path, content string }

// files returns the report with its page and plots, and README if it has the numbers of that folder.
func files(r *results.Report, folder string) ([]file, error) {
	drawings, err := r.Drawings()
	if err != nil {
		return nil, err
	}
	numbers, err := r.JSON()
	if err != nil {
		return nil, err
	}
	all := []file{{filepath.Join(folder, "benchmarks.json"), numbers}, {filepath.Join(folder, "benchmarks.md"), r.Markdown(drawings)}}
	for _, d := range drawings {
		all = append(all, file{filepath.Join(folder, "img", d.File), d.SVG})
	}
	if filepath.Clean(folder) == docs {
		const name = "README.md"
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		readme, err := r.InReadme(string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name, readme})
	}
	return all, nil
}

// check returns an error if a file is not what the report in the folder makes of it.
func check(folder string) error {
	from := filepath.Join(folder, "benchmarks.json")
	r, err := results.Read(from)
	if err != nil {
		return err
	}
	all, err := files(r, folder)
	if err != nil {
		return err
	}
	for _, f := range all {
		if have, err := os.ReadFile(f.path); err != nil || string(have) != f.content {
			return fmt.Errorf("%s is not what %s makes of it. Edit neither: run make bench BENCH_FLAGS='-from %s -out %s'", f.path, from, from, folder)
		}
	}
	return nil
}
