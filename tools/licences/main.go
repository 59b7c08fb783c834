// Command licences writes docs/reference/dependencies.md: the Go modules that are compiled into wsbouncer, on any system that it is built
// for, by licence. It fails if a licence is not known to fit a program under the Apache License 2.0. `make licences` runs it, and `make lint`
// with -check, which writes nothing and fails if the page is not up to date.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is what `go list` says of a module.
type module struct {
	Path, Version, Dir string
	Replace            *module
}

// systems are those that releases are built for.
var systems = []string{"linux", "darwin", "windows"}

// fits are the licences whose terms a program under the Apache License 2.0 can keep when it is passed on, as the page says: their notice,
// and the source of files under MPL-2.0.
var fits = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense"}

// signs are phrases by which the text of a licence is known. (What is in the text decides, not what a file is called.)
var signs = []struct{ phrase, name string }{
	{"gnu affero general public license", "AGPL"},
	{"gnu lesser general public license", "LGPL"},
	{"gnu general public license", "GPL"},
	{"mozilla public license version 2.0", "MPL-2.0"},
	{"mozilla public license, version 2.0", "MPL-2.0"},
	{"apache license version 2.0", "Apache-2.0"},
	{"apache license, version 2.0", "Apache-2.0"},
	{"permission is hereby granted, free of charge", "MIT"},
	{"permission to use, copy, modify, and/or distribute", "ISC"},
	{"permission to use, copy, modify, and distribute this software", "ISC"},
	{"cc0 1.0 universal", "CC0-1.0"},
	{"this is free and unencumbered software", "Unlicense"},
}

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if the page is not up to date")
	root := flag.String("root", "..", "the repository")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	modules, err := compiled(root)
	if err != nil {
		return err
	}
	page, err := page(modules)
	if err != nil {
		return err
	}
	file := filepath.Join(root, "docs/reference/dependencies.md")
	if !check {
		return os.WriteFile(file, page, 0o644)
	}
	now, err := os.ReadFile(file)
	if err == nil && !bytes.Equal(now, page) {
		err = fmt.Errorf("%s is not up to date: run `make licences`", file)
	}
	return err
}

// compiled returns the modules that the program is made of, by path.
func compiled(root string) (map[string]module, error) {
	all := make(map[string]module)
	for _, system := range systems {
		list := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/wsbouncer")
		list.Dir, list.Stderr = root, os.Stderr
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", system, err)
		}
		decoder := json.NewDecoder(bytes.NewReader(out))
		for {
			var p struct{ Module *module }
			if err := decoder.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			if m := p.Module; m != nil && m.Version != "" { // packages of Go and of this module have none
				if m.Replace != nil {
					m = m.Replace
				}
				all[m.Path] = *m
			}
		}
	}
	return all, nil
}

// page returns the page: the modules by their licences, those of most modules first.
func page(modules map[string]module) ([]byte, error) {
	var problems []string
	groups := make(map[string][]string) // the paths of modules by their licences
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		names, err := licences(modules[path].Dir)
		if err != nil {
			return nil, err
		}
		group := strings.Join(names, ", ")
		groups[group] = append(groups[group], path)
		for _, name := range names {
			if !slices.Contains(fits, name) {
				problems = append(problems, path+" has the licence "+name)
			}
		}
		if len(names) == 0 {
			problems = append(problems, path+" has no licence that this program knows")
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("not known to fit the Apache License 2.0:\n  %s", strings.Join(problems, "\n  "))
	}
	var b bytes.Buffer
	b.WriteString(`# Dependencies

The Go modules that are compiled into wsbouncer, for Linux, macOS or Windows, by licence. If you redistribute the program, keep their notices, and offer the
source of the files under MPL-2.0. Versions are in ` + "`go.mod`" + ` and in the bill of materials of [each release](../install.md). Written by ` + "`make licences`" + `.
` + "`make lint`" + ` fails if a module is missing or if its licence does not fit a program under the Apache License 2.0.
`)
	order := slices.SortedFunc(maps.Keys(groups), func(x, y string) int {
		return cmp.Or(len(groups[y])-len(groups[x]), strings.Compare(x, y))
	})
	for _, group := range order {
		fmt.Fprintf(&b, "\n## %s\n\n    %s\n", group, strings.Join(groups[group], "\n    "))
	}
	b.WriteString(`
## What else is in the program

- Go's standard library: BSD-3-Clause
- [uPlot](../../internal/operate/dashboard/static/vendor/uplot), the charts of the dashboard: MIT
- Mozilla's root certificates, from golang.org/x/crypto/x509roots/fallback: MPL-2.0 (the list), BSD-3-Clause (the module)
`)
	return b.Bytes(), nil
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-.].*)?$`)
	spaces      = regexp.MustCompile(`\s+`)
)

// licences returns the licences in the files of a module's folder, each once.
func licences(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("%w (run `go mod download` first)", err)
	}
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		names = append(names, namesIn(string(content))...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// namesIn returns the licences in a text.
func namesIn(text string) (names []string) {
	text = strings.ToLower(spaces.ReplaceAllString(text, " "))
	for _, sign := range signs {
		if strings.Contains(text, sign.phrase) {
			names = append(names, sign.name)
		}
	}
	if strings.Contains(text, "redistribution and use in source and binary forms") {
		if strings.Contains(text, "neither the name") || strings.Contains(text, "names of its contributors may") {
			names = append(names, "BSD-3-Clause")
		} else {
			names = append(names, "BSD-2-Clause")
		}
	}
	// The text of the MPL 2.0 names the GNU licences with which it may be combined (section 1.12).
	if slices.Contains(names, "MPL-2.0") {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "GPL") })
	}
	return names
}
