package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// maxFile is the maximum size of a file in bytes, a hundred times what is needed.
const maxFile = 1 << 20

// file applies the settings of a file. Errors about the file itself begin with how, which names the flag or variable of the path.
func (l *loading) file(path, how string) {
	data, err := readFile(path)
	if err != nil {
		l.bad("%s%w", how, err)
		return
	}
	l.decode(path, data)
}

// readFile reads a file, or the first bytes of one that is too large.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: use a file", path)
	}
	return io.ReadAll(io.LimitReader(file, maxFile+1))
}

// decode applies the settings in data; name is the file's name for errors.
func (l *loading) decode(name string, data []byte) {
	root, err := strictyaml.Parse(data, maxFile)
	if err != nil {
		l.bad("%s: %w", err.Place(name), err)
		return
	}
	about := ""
	first := len(l.problems)
	lines := make(map[error]int)
	read := strictyaml.Reader{Report: func(n *strictyaml.Node, text string) {
		l.bad("%s: %s%w", strictyaml.Place(name, n), about, errors.New(text))
		lines[l.problems[len(l.problems)-1]] = n.Line
	}}
	gone := Removed()
	for _, entry := range read.Entries(root, "a mapping from settings, such as listen and database, to values") {
		s := find(l.rows, entry.Key.Value)
		switch {
		case gone[entry.Key.Value] != nil:
			read.Report(entry.Key, gone[entry.Key.Value].Error())
			continue
		case s == nil && slices.Contains([]string{"services", "backends", "profiles", "tenants", "keys"}, entry.Key.Value):
			read.Report(entry.Key, fmt.Sprintf("%q belongs to the configuration, not to the settings: put it into another file and set database to that file", entry.Key.Value))
			continue
		case !read.Known(entry, "setting", Names()):
			continue
		}
		about = s.name + ": "
		place := strictyaml.Place(name, entry.Value)
		if texts, ok := l.texts(s, entry.Value, read); ok {
			before := len(l.problems)
			l.set(s, place, place+": "+about, texts)
			for _, err := range l.problems[before:] {
				lines[err] = entry.Value.Line
			}
		}
		about = ""
	}
	slices.SortStableFunc(l.problems[first:], func(a, b error) int { return cmp.Compare(lines[a], lines[b]) })
}

// texts returns the texts of a node: one, or several for a list.
func (l *loading) texts(s *setting, n *strictyaml.Node, read strictyaml.Reader) ([]string, bool) {
	if !s.isList() {
		text, ok := read.Scalar(n)
		return []string{text}, ok
	}
	texts, ok := read.Texts(n)
	if strictyaml.KindOf(n) == strictyaml.List && len(n.Content) == 0 && s.unset == "" {
		read.Report(n, "the list is empty: use "+s.value.Allowed())
		return nil, false
	}
	return texts, ok
}
