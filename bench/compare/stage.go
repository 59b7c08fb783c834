//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// stage is what all runs share.
type stage struct {
	dir        string // temporary
	wsbouncer  string // the binary that is measured
	tools      string // the wsbouncer that provides the backends
	all        []rivals.Rival
	setUp      rivals.Options
	calm       float64
	settle     time.Duration // from when a proxy is ready until the load
	resolution float64       // of searches
	began      time.Time
	commit     string // that is measured
}

// newStage builds and installs what the plan needs. The caller closes it.
func newStage(ctx context.Context, root string, p plan, o options) (*stage, error) {
	workers, err := rivals.Workers(o.workers)
	if err != nil {
		return nil, err
	}
	st := &stage{calm: o.calm, settle: 700 * time.Millisecond, resolution: 1.15, began: time.Now()}
	if o.quick {
		st.settle = 300 * time.Millisecond
		st.resolution = 2.1 // it only doubles or halves
	}
	if st.dir, err = os.MkdirTemp("", "compare-"); err != nil {
		return nil, err
	}
	if o.wsbouncer == "" {
		st.commit = commit(ctx, root)
	}
	flags := "-s -w -X github.com/wsbouncer/wsbouncer/internal/cli.version=" + st.commit
	if st.wsbouncer, err = child.Build(ctx, root, o.wsbouncer, st.dir, "-trimpath", "-ldflags", flags); err != nil {
		st.close()
		return nil, err
	}
	// The backends have a file of their own: processes that run the same one share its pages, which PSS divides among them.
	if st.tools, err = copied(st.wsbouncer, filepath.Join(st.dir, "tools")); err != nil {
		st.close()
		return nil, err
	}
	st.setUp = rivals.Options{
		Root: root, Cache: filepath.Join(root, ".cache", "bench"), Dir: st.dir, WSBouncer: st.wsbouncer, Workers: workers, Offline: o.offline,
		Variants: o.variants,
	}
	only := o.only
	if only != "" {
		for _, v := range o.variants {
			only += "," + v.Name
		}
		names := strings.Split(only, ",")
		st.setUp.Wanted = func(name string) bool { return slices.Contains(names, name) }
	} else if allBringRivals(p) {
		st.setUp.Wanted = func(string) bool { return false }
	}
	all := rivals.SetUp(ctx, st.setUp)
	if st.all, err = rivals.Select(all, only); err != nil && only != "" && !allBringRivals(p) {
		st.close()
		return nil, err
	}
	return st, ctx.Err()
}

// copied copies a program to a path, which it returns.
func copied(program, to string) (string, error) {
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(to, data, 0o700)
	}
	return to, err
}

// allBringRivals reports whether the scenarios bring rivals of their own.
func allBringRivals(p plan) bool {
	return !slices.ContainsFunc(p.scenarios, func(s scenario) bool { return !slices.Contains([]string{"everything", "silent", "profiles"}, s.name) })
}

// wanted returns those of a scenario's own rivals that -only names; all if it names none.
func (st *stage) wanted(rows []rivals.Rival) []rivals.Rival {
	if named := slices.DeleteFunc(slices.Clone(rows), func(r rivals.Rival) bool { return st.setUp.Wanted == nil || !st.setUp.Wanted(r.Name) }); len(named) > 0 {
		return named
	}
	return rows
}

// close removes what was made for the run.
func (st *stage) close() { _ = os.RemoveAll(st.dir) }

// commit returns the name of the commit that is measured; "" outside of a repository.
func commit(ctx context.Context, root string) string {
	text, _ := child.Output(ctx, root, "git", "describe", "--tags", "--always", "--dirty", "--abbrev=12")
	return text
}

// withoutPaths removes this machine's folders from a message.
func (st *stage) withoutPaths(text string) string {
	return rivals.WithoutPaths(text, st.dir, st.setUp.Cache, st.setUp.Root)
}
