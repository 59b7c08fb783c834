//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// publish prints the tables and writes the report with its plots into a folder.
func publish(r *results.Report, folder string) error {
	fmt.Print(r.Tables())
	images := filepath.Join(folder, "img")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	var drawn []results.Drawing
	var failed []error
	for _, d := range r.Drawings() {
		err := d.Err
		if err == nil {
			err = os.WriteFile(filepath.Join(images, d.File), []byte(d.SVG), 0o644)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		drawn = append(drawn, d)
	}
	failed = append(
		failed,
		r.Write(filepath.Join(folder, "benchmarks.json")),
		os.WriteFile(filepath.Join(folder, "benchmarks.md"), []byte(r.Markdown(drawn)), 0o644),
	)
	fmt.Printf("report: %s\n", filepath.Join(folder, "benchmarks.md"))
	return errors.Join(failed...)
}
