package proxyprocess

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// raceReport begins what a program that was built with the race detector says of a data race.
const raceReport = "WARNING: DATA RACE"

// Races returns an error that names the files below a directory in which a program has reported a data race; nil if there are none. Programs report one
// in their standard error, which is in their logs, at the moment of the race: also those that are killed later.
func Races(directory string) error {
	var files []string
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(raceReport)) {
			files = append(files, path)
		}
		return err
	})
	if len(files) > 0 {
		return fmt.Errorf("data races in the program: %s", strings.Join(files, ", "))
	}
	return err
}
