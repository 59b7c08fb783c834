//go:build linux

package main

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// accepting are profiles that accept the risk for which the built-in ones use a connection once.
//
//go:embed accepting.yaml
var accepting []byte

// programs are the programs that are measured and their files. The methods may be called once prepare has returned.
type programs struct {
	dir       string // temporary
	root      string // of the module
	wsbouncer string
	haproxy   string // empty when it is not installed
	profiles  string // file with the profiles in accepting
}

// prepare builds what has to be built and looks for the rest. The caller removes it.
func prepare(ctx context.Context, o options) (*programs, error) {
	root, err := child.Enter(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "profiles-")
	if err != nil {
		return nil, err
	}
	p := &programs{dir: dir, root: root, wsbouncer: o.wsbouncer, profiles: filepath.Join(dir, "profiles.yaml")}
	if err = os.WriteFile(p.profiles, accepting, 0o644); err == nil && p.wsbouncer == "" {
		p.wsbouncer = filepath.Join(dir, "wsbouncer")
		_, err = child.Output(ctx, root, "go", "build", "-o", p.wsbouncer, "./cmd/wsbouncer")
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy"} {
		if path, err := exec.LookPath(name); err == nil {
			p.haproxy = path
			break
		}
	}
	return p, nil
}

func (p *programs) remove() { _ = os.RemoveAll(p.dir) }

// settle returns how long a profile lets a connection be quiet after the reset, as the program shows the profile.
func (p *programs) settle(ctx context.Context, profile string) (time.Duration, error) {
	text, err := child.Output(ctx, "", p.wsbouncer, "profile", "show", profile, "--profile-file", p.profiles)
	if err != nil {
		return 0, err
	}
	return settleIn(text)
}

var settleKey = regexp.MustCompile(`(?m)[ {,]settle: ([0-9a-z.]+)`)

// settleIn returns the value of reset.settle in a profile's YAML; 0 when it has none.
func settleIn(text string) (time.Duration, error) {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines = append(lines, line)
		}
	}
	found := settleKey.FindStringSubmatch(strings.Join(lines, ""))
	if found == nil {
		return 0, nil
	}
	return time.ParseDuration(found[1])
}
