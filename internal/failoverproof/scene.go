package failoverproof

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/profile"
	"github.com/wsbouncer/wsbouncer/internal/sim"
	"github.com/wsbouncer/wsbouncer/internal/stage"
)

// scene is the servers, and the proxy in front of them unless clients speak with servers directly. Its fields are static.
type scene struct {
	o       Options
	servers []*sim.Server
	stage   *stage.Stage // nil without the proxy
	folder  string       // for a profile; empty for none
}

func newScene(ctx context.Context, o Options) (*scene, error) {
	s := &scene{o: o}
	server := sim.Options{Protocol: o.Protocol, Latency: 5 * time.Millisecond, Jitter: 10 * time.Millisecond, Seed: o.Seed}
	if o.Direct {
		for range o.Servers {
			started, err := sim.Start(server)
			if err != nil {
				s.close()
				return nil, err
			}
			s.servers = append(s.servers, started)
		}
		return s, nil
	}
	name, file, err := s.profile()
	if err != nil {
		return nil, err
	}
	var log *slog.Logger
	if o.Verbose {
		log = slog.New(slog.NewTextHandler(o.Log, nil))
	}
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s.stage, err = stage.Start(starting, stage.Options{
		Server: server, Servers: o.Servers, Log: log,
		Proxy: func(settings *app.Settings) {
			settings.Profile = name
			if file != "" {
				settings.ProfileFiles = []string{file}
			}
			settings.Admin = "127.0.0.1:0"
			settings.Connections, settings.Warm = o.Sessions, max(1, o.Sessions/o.Servers/4) // two servers can carry all
			settings.Queue = 10_000
			settings.QueueTimeout = o.Patience
			settings.CloseTimeout = time.Second
			settings.DrainTimeout = 0
			settings.Failover = "replay"
			settings.StallTimeout = time.Second
		},
	})
	if err != nil {
		s.close()
		return nil, err
	}
	s.servers = s.stage.Servers()
	return s, nil
}

// profile returns the name of the profile to use, and the file that it is in, if any. The simulated servers ask for no key, so that
// connections can be dialed ahead.
func (s *scene) profile() (name, file string, err error) {
	if s.o.ProfileFile != "" {
		return s.o.Profile, s.o.ProfileFile, nil
	}
	if name = s.o.Profile; name == "" {
		name = s.o.Protocol
	}
	p, err := profile.Named(name)
	if err != nil || p.Predial != profile.PredialWithKey {
		return name, "", err
	}
	if s.folder, err = os.MkdirTemp("", "failover-*"); err != nil {
		return "", "", err
	}
	file = filepath.Join(s.folder, "profiles.yaml")
	text := fmt.Sprintf("profiles: {keyless: {from: %s, predial: idle}}\n", name)
	return "keyless", file, os.WriteFile(file, []byte(text), 0o600)
}

// url returns the address for a session.
func (s *scene) url(session uint64) string {
	if s.stage != nil {
		return s.stage.URL()
	}
	return s.servers[session%uint64(len(s.servers))].URL()
}

// count adds what the proxy counted.
func (s *scene) count(*Report) {}

func (s *scene) close() {
	switch {
	case s.stage != nil:
		s.stage.Close()
	default:
		for _, server := range s.servers {
			server.Close()
		}
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}
