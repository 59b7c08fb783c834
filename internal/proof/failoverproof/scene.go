package failoverproof

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// scene is the servers, and the proxy in front of them unless clients speak with servers directly.
type scene struct {
	// Static.
	o       Options
	servers []*sim.Server
	stage   *stage.Stage   // nil without the proxy
	admin   *client.Client // of the proxy
	folder  string         // for the proxy's admin socket and a profile; empty for none

	mu    sync.Mutex
	moves map[string]int // guarded by mu: what came of moves that an operator ordered
}

func newScene(ctx context.Context, o Options) (*scene, error) {
	s := &scene{o: o, moves: make(map[string]int)}
	server := sim.Options{Protocol: o.Protocol, Latency: o.Latency, Jitter: o.Latency, Seed: o.Seed, Silence: time.Hour}
	server.Fail.Age, server.Fail.Notice = o.Age, o.Notice
	if o.Outside != nil {
		s.servers = o.Outside.Servers
		return s, nil
	}
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
	var err error
	if s.folder, err = os.MkdirTemp("", "failover-*"); err != nil {
		return nil, err
	}
	socket := filepath.Join(s.folder, "admin.sock") // without a token, the proxy can be changed over its socket only
	name, file, err := s.profile()
	if err != nil {
		s.close()
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
			settings.AdminSocket = socket
			settings.Connections, settings.Warm = o.Sessions, max(1, o.Sessions/o.Servers/4) // two servers can carry all
			settings.Queue = 10_000
			settings.QueueTimeout = o.Patience
			settings.CloseTimeout = time.Second
			settings.DrainTimeout = 0
			settings.Failover = "replay"
			settings.ReplayMemory = o.Memory
			if o.Events > 0 { // otherwise no server hangs: one that is late is short of processor time, as the machine is
				settings.StallTimeout = time.Second
			}
			if o.Cuts > 0 {
				settings.Reconnect = o.Patience
			}
		},
	})
	if err != nil {
		s.close()
		return nil, err
	}
	s.servers = s.stage.Servers()
	if s.admin, err = client.New("unix:"+socket, ""); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// profile returns the name of the profile to use, and the file that it is in, if any. The simulated servers ask for no key, so that
// connections can be dialed ahead, and some need other settings than most servers.
func (s *scene) profile() (name, file string, err error) {
	if s.o.ProfileFile != "" {
		return s.o.Profile, s.o.ProfileFile, nil
	}
	name = cmp.Or(s.o.Profile, s.o.Protocol)
	of, err := protocolNamed(s.o.Protocol)
	if err != nil {
		return name, "", err
	}
	var settings []string
	if of.settings != "" {
		settings = []string{of.settings}
	}
	switch {
	case s.o.Notice > 0:
		settings = append(settings, `goaway: {json: {goAway: "*"}}`)
	case s.o.Age > 0:
		settings = append(settings, "max-age: "+s.o.Age.String())
	}
	file, err = kit.WriteProfile(s.folder, "simulated", name, settings...)
	return "simulated", file, err
}

// url returns the address for a session.
func (s *scene) url(session uint64) string {
	switch {
	case s.stage != nil:
		return s.stage.URL()
	case s.o.Outside != nil:
		return s.o.Outside.URLs[session%uint64(len(s.o.Outside.URLs))]
	}
	return s.servers[session%uint64(len(s.servers))].URL()
}

// nameOf returns how the proxy calls a server.
func (s *scene) nameOf(server *sim.Server) (string, error) {
	backends := s.stage.Proxy().Stats().Backends
	i := slices.IndexFunc(backends, func(b api.Backend) bool { return b.URL == server.URL() })
	if i < 0 {
		return "", fmt.Errorf("the proxy does not know the server %s", server.URL())
	}
	return backends[i].Name, nil
}

// moveWithin is how long sessions may take to move once they do so by replay.
const moveWithin = 20 * time.Second

// move has an operator move all sessions of a server, and returns when nothing more comes of it.
func (s *scene) move(ctx context.Context, server *sim.Server, timeout time.Duration) error {
	name, err := s.nameOf(server)
	if err != nil {
		return err
	}
	path := api.BackendsPath + "/" + name + "/move"
	var moving api.Moving
	err = s.admin.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Query: url.Values{"timeout": {timeout.String()}}}, &moving)
	for until := time.Now().Add(timeout + moveWithin); err == nil && !moving.Done; {
		if time.Now().After(until) {
			return fmt.Errorf("after %v, %d sessions still wait and %d are still moving from %s", timeout+moveWithin,
				moving.Count(api.MoveWaiting), moving.Count(api.MoveUnderway), name)
		}
		if err := kit.Wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		err = s.admin.Get(ctx, path, nil, &moving)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range moving.Sessions {
		what := moving.Sessions[i].State
		if what == api.MoveRefused {
			what += ": " + moving.Sessions[i].Why
		}
		s.moves[what]++
	}
	return err
}

// count adds what the proxy counted.
func (s *scene) count(r *Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Ordered = s.moves
	if s.stage == nil {
		return
	}
	for _, service := range s.stage.Proxy().Stats().Services {
		if f := service.Failover; f != nil {
			r.Moved += f.Moved
			r.NotMoved += f.NotMoved
			for reason, n := range f.Unassured {
				if n > 0 {
					r.Unassured = fmt.Sprintf("%s %s %d", r.Unassured, reason, n)
				}
			}
		}
	}
}

func (s *scene) close() {
	if s.admin != nil {
		_ = s.admin.Close()
	}
	switch {
	case s.stage != nil:
		s.stage.Close()
	case s.o.Outside == nil:
		for _, server := range s.servers {
			server.Close()
		}
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}
