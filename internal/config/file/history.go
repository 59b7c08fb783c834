package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
)

// keptRecords is how many changes the history keeps.
const keptRecords = 100

// history is a directory with one file for each change, whose names are numbers.
type history struct{ directory string }

// record is what one change made of the file.
type record struct {
	Version string       `json:"version"`
	At      time.Time    `json:"at"`
	Who     string       `json:"who"`
	Why     string       `json:"why,omitempty"`
	Edits   config.Edits `json:"edits,omitempty"`
	File    string       `json:"file"`
}

func (r *record) revision() config.Revision {
	return config.Revision{Version: r.Version, At: r.At, Who: r.Who, Why: r.Why, Edits: r.Edits}
}

// outsider is who changed the file without the store.
const outsider = "(an editor)"

// outside returns the record of a change that was made to the file itself.
func outside(records []record, data []byte, at time.Time) record {
	r := record{Version: version(data), At: at, Who: outsider, File: string(data)}
	before := config.NewContent()
	if len(records) > 0 {
		if content, err := DecodeEarlier("", []byte(records[len(records)-1].File), nil); err == nil {
			before = content
		}
	}
	if after, err := Decode("", data, nil); err == nil {
		r.Edits = config.Diff(&before, &after)
	}
	return r
}

// names returns the names of the records, the oldest first.
func (h history) names() ([]string, error) {
	entries, err := os.ReadDir(h.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration history: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// read returns all records, the oldest first.
func (h history) read() ([]record, error) {
	names, err := h.names()
	if err != nil {
		return nil, err
	}
	records := make([]record, 0, len(names))
	for _, name := range names {
		r, err := h.record(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was too old, and removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("configuration history: %s: %w", name, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// wrote reports whether the latest record is of that version: the file has what a store wrote, or what one found there before.
func (h history) wrote(version string) bool {
	names, err := h.names()
	if err != nil || len(names) == 0 {
		return false
	}
	r, err := h.record(names[len(names)-1])
	return err == nil && r.Version == version
}

// record returns the record in a file.
func (h history) record(name string) (r record, err error) {
	data, err := os.ReadFile(filepath.Join(h.directory, name))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// add writes a record, and removes those that are too old. The caller has the lock.
func (h history) add(r record) error {
	if err := fileowner.Mkdir(h.directory, 0o750); err != nil {
		return err
	}
	names, err := h.names()
	if err != nil {
		return err
	}
	next := 1
	if len(names) > 0 {
		if _, err := fmt.Sscanf(names[len(names)-1], "%d.json", &next); err != nil {
			return fmt.Errorf("configuration history: %s is not a number", names[len(names)-1])
		}
		next++
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := Replace(filepath.Join(h.directory, fmt.Sprintf("%09d.json", next)), data); err != nil {
		return err
	}
	for len(names) >= keptRecords {
		_ = os.Remove(filepath.Join(h.directory, names[0])) // what cannot be removed does no harm
		names = names[1:]
	}
	return nil
}

// keep records what the file says before a change, if that is not the latest record: the file itself was changed.
func (h history) keep(data []byte, at time.Time) error {
	if len(data) == 0 {
		return nil
	}
	records, err := h.read()
	if err != nil {
		return err
	}
	if len(records) > 0 && records[len(records)-1].Version == version(data) {
		return nil
	}
	return h.add(outside(records, data, at))
}
