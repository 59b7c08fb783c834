//go:build linux

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// answerTimeout limits everything whose duration is not measured.
const answerTimeout = 15 * time.Second

// accepting are profiles that accept the risk because of which the built-in ones use a connection once.
//
//go:embed accepting.yaml
var accepting []byte

// programs are the programs that are measured and their files. The methods may be called once prepare has returned.
type programs struct {
	dir       string // temporary
	root      string // of the repository
	wsbouncer string
	profiles  string // file with the profiles in accepting
}

// prepare builds the programs. The caller removes them.
func prepare(ctx context.Context, o options) (p *programs, err error) {
	p = &programs{wsbouncer: o.wsbouncer}
	if p.root, err = child.Enter(ctx); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "profiles-"); err != nil {
		return nil, err
	}
	p.profiles = filepath.Join(p.dir, "profiles.yaml")
	if err = os.WriteFile(p.profiles, accepting, 0o644); err == nil && p.wsbouncer == "" {
		p.wsbouncer = filepath.Join(p.dir, "wsbouncer")
		_, err = child.Output(ctx, p.root, "go", "build", "-o", p.wsbouncer, "./cmd/wsbouncer")
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	return p, nil
}

func (p *programs) remove() { _ = os.RemoveAll(p.dir) }

// startServer starts a simulated server, and returns its address. The caller stops the process.
func (p *programs) startServer(ctx context.Context, protocol string, flags ...string) (*child.Process, string, error) {
	addresses, err := child.FreeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	server, err := child.StartSimulator(ctx, p.wsbouncer, addresses[0], protocol, append(flags, "--quiet")...)
	return server, addresses[0], err
}

// startProxy starts the proxy with a profile and a number of connections to a backend, and returns when all of them are idle. The
// caller stops it.
func (p *programs) startProxy(ctx context.Context, profile, backend string, connections int) (*child.Proxy, error) {
	x, err := child.StartProxy(ctx, p.wsbouncer, "--backend", "ws://"+backend, "--log-level", "warn",
		"--profile", profile, "--profile-file", p.profiles, "--connections", strconv.Itoa(connections))
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", profile, err)
	}
	err = x.Await(ctx, "connections with the profile "+profile, answerTimeout, func(s *api.Stats) bool {
		return len(s.Backends) == 1 && s.Backends[0].Idle == connections
	})
	if err != nil {
		x.Stop()
		return nil, err
	}
	return x, nil
}

// backendTotals returns the totals of a proxy's one backend.
func backendTotals(ctx context.Context, x *child.Proxy) (dialed, discarded uint64, err error) {
	s, err := x.Stats(ctx)
	if err != nil || len(s.Backends) != 1 {
		return 0, 0, fmt.Errorf("no statistics of the backend: %w", err)
	}
	return s.Backends[0].Totals.Dialed, s.Backends[0].Totals.Discarded, nil
}

// settle returns how long a connection must be quiet after the reset, as `wsbouncer profile show` says.
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
