package internal_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// files returns the paths of the repository's files, without what is built, downloaded, or kept by git.
func files(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "dist", "generated", "node_modules"}, d.Name()) {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			all = append(all, filepath.ToSlash(name[len("../"):]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// readYAML decodes a YAML file of the repository.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// ecosystems says which of Dependabot's ecosystems keeps the dependencies that a file pins.
var ecosystems = []struct {
	name string
	file *regexp.Regexp
}{
	{"gomod", regexp.MustCompile(`^go\.mod$`)},
	{"pip", regexp.MustCompile(`^requirements.*\.txt$`)},
	{"npm", regexp.MustCompile(`^package\.json$`)},
	{"docker-compose", regexp.MustCompile(`^compose\.yaml$`)},
}

// TestDependencyUpdates: .github/dependabot.yml names the folder of every file that pins dependencies, and no folder without one.
func TestDependencyUpdates(t *testing.T) {
	var dependabot struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	readYAML(t, ".github/dependabot.yml", &dependabot)
	patterns := map[string][]string{}
	for _, u := range dependabot.Updates {
		for _, directory := range append(u.Directories, u.Directory) {
			if directory != "" {
				patterns[u.Ecosystem] = append(patterns[u.Ecosystem], directory)
			}
		}
	}
	used := map[string]bool{}
	for _, file := range files(t) {
		for _, e := range ecosystems {
			if !e.file.MatchString(path.Base(file)) {
				continue
			}
			directory, covered := path.Join("/", path.Dir(file)), false
			for _, pattern := range patterns[e.name] {
				if ok, err := path.Match(pattern, directory); err != nil {
					t.Errorf("the directory %q: %v", pattern, err)
				} else if ok {
					covered, used[e.name+" "+pattern] = true, true
				}
			}
			if !covered {
				t.Errorf(".github/dependabot.yml: the ecosystem %s lacks the directory %s, where %s is", e.name, directory, path.Base(file))
			}
		}
	}
	for _, e := range ecosystems {
		for _, pattern := range patterns[e.name] {
			if !used[e.name+" "+pattern] {
				t.Errorf(".github/dependabot.yml: the ecosystem %s has the directory %s, which pins nothing of that kind", e.name, pattern)
			}
		}
	}
}

// workflow is what the tests read of a file in .github/workflows.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Strategy struct{ Matrix matrix }
		Timeout  int `yaml:"timeout-minutes"`
		Steps    []struct {
			Uses, Run string
		}
	}
}

var (
	pinned     = regexp.MustCompile(`(?m)^\s*(?:- )?uses: (\S+?)@(\S+)(.*)$`)
	commit     = regexp.MustCompile(`^[0-9a-f]{40}$`)
	release    = regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`)
	makeCall   = regexp.MustCompile(`\bmake ((?:[a-z][a-z-]*|\$\{\{ matrix\.target \}\})(?: [a-z][a-z-]*)*)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// makeTargets returns the targets of the Makefile.
func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	return targets
}

// TestWorkflows: the workflows pin every action to a commit, with its release beside it, in all of them to the same; they call
// targets that the Makefile has, and all that test; their token may only read where a job does not ask for more; and each job has a time limit.
func TestWorkflows(t *testing.T) {
	targets := makeTargets(t)
	names, err := filepath.Glob("../.github/workflows/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d workflows, %v", len(names), err)
	}
	versions, called := map[string]string{}, map[string]bool{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		name = filepath.ToSlash(name[len("../"):])
		for _, m := range pinned.FindAllStringSubmatch(string(text), -1) {
			action, at, comment := m[1], m[2], m[3]
			if !commit.MatchString(at) || !release.MatchString(comment) {
				t.Errorf("%s: %s@%s%s is not pinned: use the 40 digits of a commit, and its release as a comment (# v1.2.3)", name, action, at, comment)
			}
			if was, seen := versions[action]; seen && was != at+comment {
				t.Errorf("%s: %s is %s here and %s elsewhere", name, action, at+comment, was)
			}
			versions[action] = at + comment
		}
		var w workflow
		readYAML(t, name, &w)
		if fmt.Sprint(w.Permissions) != fmt.Sprint(map[string]string{"contents": "read"}) {
			t.Errorf("%s: the workflow's permissions are %v: begin with contents: read, and let a job ask for more", name, w.Permissions)
		}
		for job, j := range w.Jobs {
			if j.Timeout == 0 {
				t.Errorf("%s: the job %s has no timeout-minutes", name, job)
			}
			for _, step := range j.Steps {
				for _, m := range makeCall.FindAllStringSubmatch(step.Run, -1) {
					for target := range strings.FieldsSeq(strings.ReplaceAll(m[1], "${{ matrix.target }}", j.Strategy.Matrix.targets())) {
						called[target] = true
						if !targets[target] {
							t.Errorf("%s: the job %s calls make %s, which the Makefile does not have", name, job, target)
						}
					}
				}
			}
		}
	}
	for target := range targets {
		if strings.HasPrefix(target, "test") && !called[target] {
			t.Errorf("no workflow calls make %s", target)
		}
	}
}

// matrix is what the tests read of a job's matrix: the targets of the Makefile that it calls.
type matrix struct {
	Target  []string
	Include []struct{ Target string }
}

// targets returns the targets, separated by spaces.
func (m matrix) targets() string {
	all := m.Target
	for _, one := range m.Include {
		all = append(all, one.Target)
	}
	return strings.Join(all, " ")
}
