package usage

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// files is the folder in the state directory with a file for each hour of each process. Where there is no database, it is the [Store].
type files struct {
	folder string                               // static; empty for none
	write  func(path string, data []byte) error // static; in one step
	log    *slog.Logger
}

// suffix ends the files' names. What is before it is the hour and the process.
const suffix = ".json"

// save writes the rows of a count.
func (f *files) save(process, hour string, rows []Row) error {
	data, err := json.Marshal(rows)
	if err == nil {
		err = os.MkdirAll(f.folder, 0o750)
	}
	if err == nil {
		err = f.write(filepath.Join(f.folder, hour+"-"+process+suffix), append(data, '\n'))
	}
	return err
}

// file is one of the files.
type file struct{ path, hour, process string }

// written returns when the file was written; zero if that cannot be read.
func (f file) written() time.Time {
	about, err := os.Stat(f.path)
	if err != nil {
		return time.Time{}
	}
	return about.ModTime()
}

// list returns the files of the hours from one to before another, without those of a process.
func (f *files) list(from, to, except string) (all []file, err error) {
	if f.folder == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(f.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries { // in order
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || len(name) <= len(hourLayout) || name[0] == '.' {
			continue
		}
		one := file{filepath.Join(f.folder, e.Name()), name[:len(hourLayout)], name[len(hourLayout)+1:]}
		if one.hour >= from && one.hour < to && (except == "" || !strings.HasPrefix(one.process, except)) {
			all = append(all, one)
		}
	}
	return all, err
}

// read returns the rows of a file. One that cannot be read or is damaged has none, and only a damaged one is done with.
func (f *files) read(one file) (rows []Row, done bool) {
	data, err := os.ReadFile(one.path)
	if done = err == nil; done {
		err = json.Unmarshal(data, &rows)
	}
	if err != nil {
		f.log.Warn("a file with usage cannot be read, and is left out", "file", one.path, "reason", err)
		return nil, done
	}
	return rows, done
}

// SumUsage is that of a [Store].
func (f *files) SumUsage(_ context.Context, from, to, except string) ([]Row, error) {
	list, err := f.list(from, to, except)
	all := make(sums)
	for _, one := range list {
		rows, _ := f.read(one)
		all.add(rows)
	}
	return all.rows(), err
}

// forget removes the files of hours that are not kept.
func (f *files) forget(now time.Time) {
	list, _ := f.list("", afterAll, "")
	first, _ := oldest(now, func(before string) (string, error) {
		for _, one := range slices.Backward(list) {
			if one.hour < before {
				return one.hour, nil
			}
		}
		return "", nil
	})
	for _, one := range list {
		if one.hour < first {
			_ = os.Remove(one.path)
		}
	}
}
