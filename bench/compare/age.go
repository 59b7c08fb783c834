//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/results"
)

// mostCommits is how many commits may follow the one that published results were measured at.
const mostCommits = 300

// checkPublished checks what was published, and its age.
func checkPublished(ctx context.Context, root string, out io.Writer) error {
	if err := check(docs); err != nil {
		return err
	}
	r, err := results.Read(filepath.Join(docs, "benchmarks.json"))
	if err != nil {
		return err
	}
	unknown, err := checkAge(ctx, root, r.Commit)
	if unknown != "" {
		fmt.Fprintf(out, "The age of the benchmark's results was not checked: %s.\n", unknown)
	}
	return err
}

// checkAge returns an error if a commit, as `git describe` names it, is older than that in the repository in the folder root. Without the
// repository's history, it returns why the age is not known.
func checkAge(ctx context.Context, root, commit string) (unknown string, err error) {
	git := func(args ...string) (string, error) { return child.Output(ctx, root, "git", args...) }
	top, err := git("rev-parse", "--show-toplevel")
	if real, failed := filepath.EvalSymlinks(root); err != nil || failed != nil || top != real {
		return "this is not a Git repository", nil
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		return "this is a shallow clone", nil
	}
	again := fmt.Sprintf("Measure again with make bench, on a quiet machine, and commit README.md and %s", docs)
	if commit == "" {
		return "", fmt.Errorf("%s/benchmarks.json does not name the commit that was measured. %s", docs, again)
	}
	text, err := git("rev-list", "--count", strings.TrimSuffix(commit, "-dirty")+"..HEAD")
	if err != nil {
		return "", fmt.Errorf("%s/benchmarks.json was measured at commit %s, which this repository does not have. %s", docs, commit, again)
	}
	count, err := strconv.Atoi(text)
	if err == nil && count > mostCommits {
		err = fmt.Errorf("%s/benchmarks.json was measured at commit %s, %d commits ago; at most %d are allowed. %s", docs, commit, count, mostCommits, again)
	}
	return "", err
}
