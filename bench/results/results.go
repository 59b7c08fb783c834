// Package results holds the numbers of a comparison and makes a report of them: medians, ratios and their spread, whether budgets
// were met, tables and plots. It measures nothing itself. The same numbers always give the same report, so that a report can be made
// again from its JSON. Nothing in it is safe for concurrent use.
package results

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Report is the result of a comparison.
type Report struct {
	Time      time.Time  `json:"time"`
	Commit    string     `json:"commit,omitempty"` // as `git describe` names it; it ends with "-dirty" if files had changed
	Command   string     `json:"command"`
	Plan      string     `json:"plan"`
	Took      float64    `json:"took_seconds"`
	Machine   Machine    `json:"machine"`
	Base      string     `json:"base"` // the rival that ratios refer to
	Rivals    []Rival    `json:"rivals"`
	Scenarios []Scenario `json:"scenarios"`
	// Interrupted says why the report is not complete.
	Interrupted string `json:"interrupted,omitempty"`
}

// Faults returns what was to be measured but was not, and why: a rival that is not installed, a run that failed. The report of such a run
// replaces no whole one.
func (r *Report) Faults() (faults []string) {
	say := func(what, why string) {
		if fault := what + ": " + why; why != "" && !slices.Contains(faults, fault) {
			faults = append(faults, fault)
		}
	}
	for _, rival := range r.Rivals {
		say(rival.Name, rival.Missing)
	}
	for _, s := range r.Scenarios {
		say(s.Name, s.Failed)
		for _, c := range s.Cells {
			for _, round := range c.Rounds {
				for _, rival := range s.Rivals {
					say(rival, round[rival].Skipped)
					say(fmt.Sprintf("%s, %s, %s", s.Name, c.Label, rival), round[rival].Error)
				}
			}
		}
	}
	return faults
}

// Machine is where it was measured.
type Machine struct {
	Processors int     `json:"processors"`
	Model      string  `json:"model"`
	Memory     float64 `json:"memory_gib"`
	Kernel     string  `json:"kernel"`
	System     string  `json:"system"`
	Go         string  `json:"go"`
}

// Rival is a proxy that was compared.
type Rival struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
	Missing string `json:"missing,omitempty"` // why it was skipped
}

// Scenario is a kind of load, and what was measured under it.
type Scenario struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Text    string   `json:"text"`
	Base    string   `json:"base"`
	Rivals  []string `json:"rivals"`
	Metrics []Metric `json:"metrics"`
	Cells   []Cell   `json:"cells"`
	// Failed says why there are no numbers.
	Failed string `json:"failed,omitempty"`
}

// Metric is a number that each run has.
type Metric struct {
	Key    string `json:"key"`
	Title  string `json:"title"` // with its unit
	Digits int    `json:"digits"`
	Ratio  bool   `json:"ratio"`            // tables also show it divided by the base's number
	Higher bool   `json:"higher,omitempty"` // more is better; else less is
}

// Cell is a load, in all its rounds.
type Cell struct {
	Label    string  `json:"label"`
	Sessions int     `json:"sessions"`
	Rate     float64 `json:"rate"` // messages per second and session
	Size     int     `json:"size"`
	Binary   bool    `json:"binary,omitempty"`
	Seconds  float64 `json:"seconds"`
	Rounds   []Round `json:"rounds"`
}

// Round is one run of each rival, by name.
type Round map[string]Run

// Run is one rival's numbers in one round, by metric, or why it has none.
type Run struct {
	Values   map[string]float64 `json:"values,omitempty"`
	Skipped  string             `json:"skipped,omitempty"`
	Error    string             `json:"error,omitempty"`
	Overload string             `json:"overload,omitempty"` // it has numbers, but could not carry the load
}

// Read reads a report from its JSON.
func Read(file string) (*Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// JSON returns it as JSON, with a line for each run.
func (r *Report) JSON() (string, error) {
	text, err := json.Marshal(r)
	return strings.ReplaceAll(string(text), `},"`, "},\n\"") + "\n", err // in a string, the quotation mark has a backslash
}

// Scenario returns the scenario of that name, or nil.
func (r *Report) Scenario(name string) *Scenario {
	for i := range r.Scenarios {
		if r.Scenarios[i].Name == name {
			return &r.Scenarios[i]
		}
	}
	return nil
}
