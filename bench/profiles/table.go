//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// table is what a measurement has shown.
type table struct {
	Name    string     `json:"name"`
	Title   string     `json:"-"`
	Text    string     `json:"-"` // what was measured, and how to read it
	Header  []string   `json:"-"`
	Rows    [][]string `json:"-"`
	Numbers any        `json:"numbers"` // everything that the rows were made of
}

// markdown returns the table with its title and text.
func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s (%s)\n\n%s\n\n", t.Title, t.Name, t.Text)
	line := func(cells []string) {
		for len(cells) < len(t.Header) {
			cells = append(cells, "")
		}
		fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(strings.Join(cells, " \x00 "), "|", "/"))
	}
	line(t.Header)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(t.Header)))
	for _, row := range t.Rows {
		line(row)
	}
	return strings.ReplaceAll(b.String(), "\x00", "|") + "\n"
}

// writeJSON writes what stands behind the tables, so that other statistics can be made of it.
func writeJSON(file string, tables []*table) error {
	if file == "" {
		return nil
	}
	encoded, err := json.MarshalIndent(struct {
		Time       time.Time `json:"time"`
		Processors int       `json:"processors"`
		Go         string    `json:"go"`
		Tables     []*table  `json:"tables"`
	}{time.Now().UTC().Truncate(time.Second), runtime.NumCPU(), runtime.Version(), tables}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(encoded, '\n'), 0o644)
}
