//go:build linux

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
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
	wsbouncer string
	profiles  string // file with the profiles in accepting
}

// prepare builds the programs. The caller removes them.
func prepare(ctx context.Context, o options) (p *programs, err error) {
	root, err := child.Enter(ctx)
	if err != nil {
		return nil, err
	}
	p = new(programs)
	if p.dir, err = os.MkdirTemp("", "profiles-"); err != nil {
		return nil, err
	}
	p.profiles = filepath.Join(p.dir, "profiles.yaml")
	if err = os.WriteFile(p.profiles, accepting, 0o644); err == nil {
		p.wsbouncer, err = child.Build(ctx, root, o.wsbouncer, p.dir)
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	return p, nil
}

func (p *programs) remove() { _ = os.RemoveAll(p.dir) }

// startProxy starts the proxy with a profile and a number of connections to a backend, and returns when all of them are idle. The
// caller stops it.
func (p *programs) startProxy(ctx context.Context, profile, backend string, connections int) (*kit.Proxy, error) {
	x, err := child.StartProxy(ctx, p.wsbouncer, p.dir, "--backend", "ws://"+backend, "--log-level", "warn",
		"--profile", profile, "--profile-file", p.profiles, "--connections", strconv.Itoa(connections))
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", profile, err)
	}
	err = child.Await(ctx, x, "connections with the profile "+profile, func(s *api.Stats) bool {
		return len(s.Backends) == 1 && s.Backends[0].Idle == connections
	})
	if err != nil {
		x.Kill()
		return nil, err
	}
	return x, nil
}

// backendTotals returns the totals of a proxy's one backend.
func backendTotals(ctx context.Context, x *kit.Proxy) (dialed, discarded uint64, err error) {
	s, err := x.Stats(ctx)
	if err != nil || len(s.Backends) != 1 {
		return 0, 0, fmt.Errorf("no statistics of the backend: %w", err)
	}
	return s.Backends[0].Totals.Dialed, s.Backends[0].Totals.Discarded, nil
}

// settle returns how long a connection must be quiet after the reset.
func (p *programs) settle(name string) (time.Duration, error) {
	found, err := app.FindProfile(name, []string{p.profiles})
	if err != nil {
		return 0, err
	}
	return found.Claims().Settle, nil
}
