//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// toolbox holds the programs that a comparison needs. A rival whose program is
// "" is missing.
type toolbox struct {
	dir       string // temporary, for configurations too
	wsbouncer string // what is measured
	tools     string // the wsbouncer that provides backends and load
	relay     string // the C relay
	waiting   string // the Go relay with a choice of waiting
	nginx     string
	haproxy   string
}

// build compiles what has to be compiled and looks for the rest.
func build(ctx context.Context, dir string, o options, chosen []scenario) (toolbox, error) {
	t := toolbox{dir: dir, wsbouncer: o.wsbouncer, tools: o.tools}
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return t, fmt.Errorf("run this inside the module: %w", err)
	}
	onlyWaiting := !slices.ContainsFunc(chosen, func(s scenario) bool { return s.name != "waiting" })
	if t.wsbouncer == "" && !(onlyWaiting && t.tools != "") {
		t.wsbouncer = filepath.Join(dir, "wsbouncer")
		if _, err := output(ctx, root, "go", "build", "-o", t.wsbouncer, "./cmd/wsbouncer"); err != nil {
			return t, err
		}
	}
	if t.tools == "" {
		t.tools = t.wsbouncer
	}
	if slices.ContainsFunc(chosen, func(s scenario) bool { return s.name == "waiting" }) {
		t.waiting = filepath.Join(dir, "waiting")
		if _, err := output(ctx, root, "go", "build", "-o", t.waiting, "./bench/relays/waiting"); err != nil {
			return t, err
		}
	}
	if cc := find("cc", "gcc", "clang"); cc != "" {
		t.relay = filepath.Join(dir, "c-relay")
		if _, err := output(ctx, root, cc, "-O2", "-o", t.relay, "bench/relays/epoll.c"); err != nil {
			return t, err
		}
	}
	t.nginx = find("nginx", "/usr/sbin/nginx")
	t.haproxy = find("haproxy", "/usr/sbin/haproxy")
	return t, nil
}

// find returns the first of some programs that is installed.
func find(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	text, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return strings.TrimSpace(string(text)), nil
}
