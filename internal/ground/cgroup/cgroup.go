// Package cgroup finds the Linux cgroup of the process, where a container or a service manager limits what the process may use. On other
// systems there is none.
package cgroup

import (
	"os"
	"path"
	"slices"
	"strings"
)

// Group is the cgroup of the process for one resource, and those above it as far as they are visible. The lowest of their limits counts.
type Group struct {
	Directories []string // the lowest first; none if there is no such cgroup
	Unified     bool     // cgroups of version 2
}

// Own returns the cgroup that the process is in now, for a resource such as cpu or memory.
func Own(controller string) Group {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return find(controller, string(groups), string(mounts))
}

// find finds the cgroup, given the contents of /proc/self/cgroup and /proc/self/mountinfo (cgroups(7), proc_pid_mountinfo(5)).
func find(controller, groups, mounts string) (c Group) {
	at, found := "", false
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(parts) != 3:
		case slices.Contains(strings.Split(parts[1], ","), controller): // version 1, which counts where there are both versions
			at, found, c.Unified = parts[2], true, false
		case parts[0] == "0" && !found:
			at, found, c.Unified = parts[2], true, true
		}
	}
	if !found {
		return c
	}
	for line := range strings.Lines(mounts) {
		own, super, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(own), strings.Fields(super)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		if c.Unified && kind[0] != "cgroup2" ||
			!c.Unified && (kind[0] != "cgroup" || !slices.Contains(strings.Split(kind[2], ","), controller)) {
			continue
		}
		root, mounted := unescape(fields[3]), unescape(fields[4])
		below, ok := strings.CutPrefix(at, strings.TrimSuffix(root, "/"))
		if !ok || below != "" && below[0] != '/' { // another part of the tree is mounted: a container sees only its own
			below = ""
		}
		for below = path.Clean("/" + below); ; below = path.Dir(below) {
			c.Directories = append(c.Directories, path.Join(mounted, below))
			if below == "/" {
				return c
			}
		}
	}
	return c
}

// unescape returns a path of mountinfo, which writes white space and backslashes as octal numbers.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}

// Read returns the text of a file without white space around it; empty if it cannot be read.
func Read(directory, file string) string {
	text, err := os.ReadFile(path.Join(directory, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
