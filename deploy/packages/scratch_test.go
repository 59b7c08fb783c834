//go:build linux

// Package packages_test installs the packages that `make packages` built into scratch roots, upgrades and removes them, and runs the unit
// under a systemd of its own. `make test-packages` says where the packages are; without that the tests are skipped.
package packages_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// built returns the path of the one file in dist that fits a pattern, which may contain ARCH for the name of this machine's architecture.
func built(t *testing.T, pattern string, architectures map[string]string) string {
	t.Helper()
	dist := os.Getenv("WSBOUNCER_DIST")
	if dist == "" {
		t.Skip("WSBOUNCER_DIST is not set: use make test-packages")
	}
	pattern = strings.ReplaceAll(pattern, "ARCH", architectures[runtime.GOARCH])
	found, err := filepath.Glob(filepath.Join(dist, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		t.Fatalf("%d files in %s fit %s, not one: %q", len(found), dist, pattern, found)
	}
	return found[0]
}

// need skips a test that cannot run here.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a scratch root")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
}

// scratch is a root directory whose files are those of this system, and whose changes are lost when the test ends: an overlay in a mount
// namespace of its own.
type scratch struct {
	t     *testing.T
	enter []string // the command that runs another one in the scratch root
}

// mountScratch makes the overlay root below $1, and shows the directory $2 in it as /packages.
const mountScratch = `
set -e
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
cd root
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount --rbind /dev dev
mkdir -p packages
mount --bind "$2" packages
`

// newScratch returns a scratch root that shows the directory of a package as /packages.
func newScratch(t *testing.T, packages string) *scratch {
	t.Helper()
	need(t, "unshare", "nsenter", "chroot")
	top := t.TempDir()
	holder := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", mountScratch+"mount --rbind /proc proc\necho ready\nexec cat", "sh", top, packages)
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := startWith(t, holder)
	t.Cleanup(func() {
		input.Close() // ends the holder, and with it its mounts
		_ = holder.Wait()
	})
	var said []string
	for line := range lines {
		if line == "ready" {
			return &scratch{t: t, enter: []string{
				"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", holder.Process.Pid), "chroot", filepath.Join(top, "root"),
			}}
		}
		said = append(said, line)
	}
	t.Skipf("no scratch root can be mounted here: %s", strings.Join(said, "; "))
	return nil
}

// startWith starts a command, and returns the lines that it prints.
func startWith(t *testing.T, cmd *exec.Cmd) <-chan string {
	t.Helper()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go func() { // which the end of the command ends
		defer close(lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			default: // the lines are no longer read
			}
		}
	}()
	return lines
}

// try runs a shell script in the scratch root, and returns what it prints.
func (s *scratch) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	args := append(s.enter[1:len(s.enter):len(s.enter)], "env", "-i", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", script)
	cmd := exec.CommandContext(ctx, s.enter[0], args...)
	cmd.WaitDelay = time.Second // what it started may keep its output open
	output, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// run is try for a script that must succeed.
func (s *scratch) run(script string) string {
	s.t.Helper()
	output, err := s.try(script)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", script, err, output)
	}
	return output
}

// expect runs a script that must print want.
func (s *scratch) expect(want, script string) {
	s.t.Helper()
	if got := s.run(script); got != want {
		s.t.Errorf("%s printed %q, not %q", script, got, want)
	}
}

// expectPart runs a script whose output must contain want.
func (s *scratch) expectPart(want, script string) {
	s.t.Helper()
	if got := s.run(script); !strings.Contains(got, want) {
		s.t.Errorf("%s printed %q, without %q", script, got, want)
	}
}

// expectGone checks that files do not exist.
func (s *scratch) expectGone(files ...string) {
	s.t.Helper()
	for _, file := range files {
		if output, err := s.try("ls -d " + file); err == nil {
			s.t.Errorf("%s is still there", output)
		}
	}
}

// recordSystemctl makes the packages' scripts believe that systemd runs, and writes their calls of systemctl down. The proxy counts as running.
func (s *scratch) recordSystemctl() {
	s.t.Helper()
	s.run(`mkdir -p /run/systemd/system
printf '#!/bin/sh\necho "$@" >>/systemctl.log\n' >/tmp/systemctl
chmod +x /tmp/systemctl
mv /tmp/systemctl $(command -v systemctl || echo /usr/bin/systemctl)`)
}

// called returns the calls of systemctl since the last time.
func (s *scratch) called() string {
	s.t.Helper()
	return s.run("cat /systemctl.log 2>/dev/null; : >/systemctl.log")
}
