//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// table is what a measurement has shown.
type table struct {
	Name    string     `json:"name"`
	Title   string     `json:"-"`
	Text    string     `json:"-"` // what was measured, and how to read it
	Header  []string   `json:"-"`
	Rows    [][]string `json:"-"`
	Numbers any        `json:"numbers"` // all numbers behind the rows
}

// markdown returns the table with its title and text.
func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s (%s)\n\n%s\n\n", t.Title, t.Name, t.Text)
	results.WriteTable(&b, t.Header, t.Rows)
	b.WriteString("\n")
	return b.String()
}

// writeJSON writes the numbers behind the tables, so that other statistics can be made of them.
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

// milliseconds returns a time in milliseconds.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// inMilliseconds shows a number of milliseconds.
func inMilliseconds(v float64) string { return fmt.Sprintf("%.2f", v) }
