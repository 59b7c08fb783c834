package internal_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const number = `(\d+\.\d+\.\d+)`

// namesVersion finds where a text names a version of wsbouncer: images, packages, archives, modules, downloads, and what the program prints.
var namesVersion = regexp.MustCompile(`(?:ghcr\.io/wsbouncer/[a-z/]+:|\bwsbouncer[ _-]v?|cmd/wsbouncer@v|wsbouncer/releases/download/v|` +
	`\bnewTag: |\bversion=|tag for each version, such as .)"?` + number)

// fieldVersion finds the version of a package that is released with the program, in its own file.
var fieldVersion = map[string]*regexp.Regexp{
	"clients/javascript/package.json":  regexp.MustCompile(`^  "version": "` + number),
	"deploy/helm/wsbouncer/Chart.yaml": regexp.MustCompile(`^(?:appV|v)ersion: "?` + number),
	"clients/python/pyproject.toml":    regexp.MustCompile(`^version = "` + number),
}

// otherVersions are the pages about versions of before and after this one.
var otherVersions = []string{"CHANGELOG.md", "docs/upgrade.md", "docs/internals/releasing.md"}

// otherThan returns the lines of a file that name another version, as FILE:LINE, and how many name one.
func otherThan(version, name, text string) (wrong []string, named int) {
	at := fieldVersion[name]
	if at == nil {
		at = namesVersion
	}
	line := 0
	for content := range strings.Lines(text) {
		line++
		for _, m := range at.FindAllStringSubmatch(content, -1) {
			if named++; m[1] != version {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s", name, line, m[1]))
			}
		}
	}
	return wrong, named
}

// TestVersion: every file that names the version of wsbouncer names that of the file VERSION, and CHANGELOG.md has a section for it behind
// an "Unreleased". It is `make release-check`.
func TestVersion(t *testing.T) {
	text, err := os.ReadFile("../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(text))
	if !regexp.MustCompile(`^` + number + `$`).MatchString(version) {
		t.Fatalf("VERSION:1: %q is not a version: write MAJOR.MINOR.PATCH", version)
	}
	changes, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## .*$`).FindAllString(string(changes), 2)
	if len(headings) != 2 || headings[0] != "## Unreleased" || !regexp.MustCompile(`^## `+regexp.QuoteMeta(version)+` - \d{4}-\d\d-\d\d$`).MatchString(headings[1]) {
		t.Errorf("CHANGELOG.md begins with the sections %q: want \"## Unreleased\" and \"## %s - YYYY-MM-DD\"", headings, version)
	}
	kinds := []string{".md", ".yaml", ".yml", ".json", ".toml", ".tpl", ".sh"}
	var naming []string
	for _, name := range files(t) {
		if !slices.Contains(kinds, path.Ext(name)) || slices.Contains(otherVersions, name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		wrong, named := otherThan(version, name, string(text))
		for _, w := range wrong {
			t.Errorf("%s: VERSION has %s", w, version)
		}
		if named > 0 {
			naming = append(naming, name)
		}
	}
	for name := range fieldVersion {
		if !slices.Contains(naming, name) {
			t.Errorf("%s names no version", name)
		}
	}
	t.Logf("these files name the version %s: %s", version, strings.Join(naming, " "))
}

// TestReleaseWorkflow runs the steps of the release workflow that package and push the chart, and that publish the site, with programs that only
// record their arguments. A pre-release has its own chart, and is not the site's latest version.
func TestReleaseWorkflow(t *testing.T) {
	for _, program := range []string{"bash", "make"} {
		if _, err := exec.LookPath(program); err != nil || runtime.GOOS == "windows" {
			t.Skipf("needs %s", program)
		}
	}
	var w workflow
	readYAML(t, ".github/workflows/release.yaml", &w)
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]string{
		"v0.2.0-rc.1": `
go -C deploy/helm tool helm package wsbouncer --destination ../../dist/charts --version 0.2.0-rc.1 --app-version 0.2.0-rc.1
go -C deploy/helm tool helm push ../../dist/charts/wsbouncer-0.2.0-rc.1.tgz oci://ghcr.io/wsbouncer/charts
mike deploy --config-file site/mkdocs.yml --push 0.2.0-rc.1
`,
		"v0.2.0": `
go -C deploy/helm tool helm package wsbouncer --destination ../../dist/charts --version 0.2.0 --app-version 0.2.0
go -C deploy/helm tool helm push ../../dist/charts/wsbouncer-0.2.0.tgz oci://ghcr.io/wsbouncer/charts
mike deploy --config-file site/mkdocs.yml --update-aliases --push 0.2.0 latest
mike set-default --config-file site/mkdocs.yml --push latest
`,
	} {
		root := t.TempDir()
		const record = "#!/bin/sh\necho \"${0##*/} $*\" >>calls\n"
		for name, content := range map[string]string{"Makefile": string(makefile), "bin/go": record, "bin/git": "#!/bin/sh\n", ".cache/site/bin/mike": record} {
			name = filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		for _, job := range []string{"publish", "site"} {
			for _, step := range w.Jobs[job].Steps {
				if !strings.Contains(step.Run, "chart") && !strings.Contains(step.Run, "mike") {
					continue
				}
				command := exec.Command("bash", "-e", "-c", step.Run)
				command.Dir = root
				command.Env = []string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH"), "GITHUB_REF_NAME=" + tag, "GITHUB_REPOSITORY_OWNER=wsbouncer"}
				if output, err := command.CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", tag, step.Run, err, output)
				}
			}
		}
		if calls, err := os.ReadFile(filepath.Join(root, "calls")); err != nil || "\n"+string(calls) != want {
			t.Errorf("%s: the workflow called (%v)\n%swant%s", tag, err, calls, want)
		}
	}
}

// TestOtherThan gives the check what it must find, and what it must leave alone.
func TestOtherThan(t *testing.T) {
	for _, c := range []struct {
		name, text string
		wrong      string
		named      int
	}{
		{"a.md", "x\ndocker run ghcr.io/wsbouncer/wsbouncer:0.1.0", "a.md:2: 0.1.0", 1},
		{"a.md", "apt install ./wsbouncer_0.1.0_amd64.deb ./wsbouncer-0.2.0-1.x86_64.rpm", "a.md:1: 0.1.0", 2},
		{"a.md", "$ wsbouncer --version\nwsbouncer v0.1.3 (go1.26.8)", "a.md:2: 0.1.3", 1},
		{"a.md", "wsbouncer 0.1.0.", "a.md:1: 0.1.0", 1},
		{"a.md", "$ version=0.1.0", "a.md:1: 0.1.0", 1},
		{"a.md", "go install github.com/wsbouncer/wsbouncer/cmd/wsbouncer@v0.1.0", "a.md:1: 0.1.0", 1},
		{"a.yaml", "    newTag: 0.1.0", "a.yaml:1: 0.1.0", 1},
		{"a.yaml", "    newTag: \"0.1.0\"", "a.yaml:1: 0.1.0", 1},
		{"deploy/helm/wsbouncer/Chart.yaml", "apiVersion: v2\nversion: 0.2.0\nappVersion: 0.1.0", "deploy/helm/wsbouncer/Chart.yaml:3: 0.1.0", 2},
		{"clients/python/pyproject.toml", "requires = 3\nversion = \"0.1.0\"", "clients/python/pyproject.toml:2: 0.1.0", 1},
		{"a.md", "vosk 0.3.45, and at 10.0.0.1", "", 0},
		{"a.md", "ghcr.io/wsbouncer/wsbouncer:0.2.0", "", 1},
	} {
		wrong, named := otherThan("0.2.0", c.name, c.text)
		if got := strings.Join(wrong, " "); got != c.wrong || named != c.named {
			t.Errorf("%s: %q: %q and %d: want %q and %d", c.name, c.text, got, named, c.wrong, c.named)
		}
	}
}
