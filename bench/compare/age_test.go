//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

func TestAge(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		text, err := child.Output(t.Context(), root, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		if err != nil {
			t.Skip(err) // without Git
		}
		return text
	}
	check := func(root, commit, wantUnknown, wantErr string) {
		t.Helper()
		unknown, err := checkAge(t.Context(), root, commit)
		if unknown != wantUnknown || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("commit %q: %q, %v, want %q, %q", commit, unknown, err, wantUnknown, wantErr)
		}
	}
	check(root, "abc", "this is not a Git repository", "")
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	first := git("rev-parse", "--short", "HEAD")
	tree := git("write-tree")
	for parent, n := first, 0; n <= mostCommits; n++ {
		if n == mostCommits {
			git("reset", "-q", parent)
			check(root, first+"-dirty", "", "")
		}
		parent = git("commit-tree", tree, "-p", parent, "-m", "next")
		if n == mostCommits {
			git("reset", "-q", parent)
		}
	}
	check(root, first, "", "measured at commit "+first+", 301 commits ago; at most 300 are allowed")
	check(root, "", "", "does not name the commit")
	check(root, "v9.9.9-3-g0123456", "", "which this repository does not have")
	clone := filepath.Join(t.TempDir(), "clone")
	git("clone", "-q", "--depth", "1", "file://"+root, clone)
	check(clone, first, "this is a shallow clone", "")
}
