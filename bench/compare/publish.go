//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// publish prints the tables and writes them into a folder, with the report and its plots.
func publish(r *results.Report, folder string) error {
	tables := r.Tables()
	fmt.Print(tables)
	images := filepath.Join(folder, "img")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	drawings, err := r.Drawings()
	for _, d := range drawings {
		err = errors.Join(err, os.WriteFile(filepath.Join(images, d.File), []byte(d.SVG), 0o644))
	}
	page := filepath.Join(folder, "benchmarks.md")
	fmt.Printf("report: %s\n", page)
	return errors.Join(err, r.Write(filepath.Join(folder, "benchmarks.json")), os.WriteFile(page, []byte(r.Markdown(drawings)), 0o644),
		os.WriteFile(filepath.Join(folder, "benchmarks.txt"), []byte(tables), 0o644))
}
