package main

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// stage is the processes of the demonstration: the recognisers and the proxy in front of them.
type stage struct {
	proxy    child
	backends []string // the recognisers' URLs
	listens  []string // and their addresses
	proxyURL string
	admin    *kit.Admin

	mu          sync.Mutex
	recognisers []child // guarded by mu once the stage is set
}

// child is a process with what it writes.
type child struct {
	*kit.Process
	output *kit.Output
}

// serverListens matches what a recogniser, or a simulated server, prints once it listens.
var serverListens = regexp.MustCompile(`^(?:listening on )?(ws://\S+)$`)

// setStage starts the processes and waits until they are ready.
func setStage(ctx context.Context, o options) (_ *stage, err error) {
	s := &stage{backends: o.backends}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if len(s.backends) == 0 {
		if err := s.startServers(ctx, o); err != nil {
			return nil, err
		}
	}
	// All clients have a connection, and no more are dialed than that, so that reuse is seen.
	each := (o.clients + len(s.backends) - 1) / len(s.backends)
	if o.kill > 0 {
		each = o.clients // sessions need a place when servers are away
	}
	arguments := []string{
		"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--profile", o.profile,
		"--connections", strconv.Itoa(each), "--log-level", "info", "--log-format", "text", "--drain-timeout", "0s",
	}
	if o.kill > 0 {
		arguments = append(arguments, "--failover", "replay")
	}
	for _, url := range s.backends {
		arguments = append(arguments, "--backend", url)
	}
	if s.proxy, err = start("the proxy", o.proxy, arguments...); err != nil {
		return nil, err
	}
	address, err := s.proxy.Await(ctx, s.proxy.output, kit.Listening)
	if err != nil {
		return nil, err
	}
	s.proxyURL = "ws://" + address + "/"
	adminURL, err := s.proxy.Await(ctx, s.proxy.output, kit.AdminListening)
	if err != nil {
		return nil, err
	}
	s.admin = kit.NewAdmin(adminURL)
	return s, s.proxy.Until(ctx, "the proxy has a connection for a client", func() (bool, error) {
		err := s.admin.Get(ctx, "/readyz", nil)
		return err == nil, nil
	})
}

// startServers starts the recognisers at the same time: each takes a while to load.
func (s *stage) startServers(ctx context.Context, o options) error {
	for i := range o.servers {
		p, err := startServer(o, i, "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.recognisers = append(s.recognisers, p)
	}
	for _, p := range s.recognisers {
		url, err := p.Await(ctx, p.output, serverListens)
		if err != nil {
			return err
		}
		s.backends, s.listens = append(s.backends, url), append(s.listens, strings.TrimPrefix(url, "ws://"))
	}
	return nil
}

func start(name, binary string, arguments ...string) (child, error) {
	command, output := exec.Command(binary, arguments...), new(kit.Output)
	command.Stdout, command.Stderr = output, output
	kit.Separate(command)
	p, err := kit.Start(name, command)
	return child{p, output}, err
}

// close stops the processes and returns when they have ended.
func (s *stage) close() {
	var all []*kit.Process
	if s.proxy.Process != nil {
		all = append(all, s.proxy.Process)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.recognisers {
		all = append(all, p.Process)
	}
	kit.StopAll(all...)
}

// backendStats returns the statistics of the backends when all sessions have ended.
func (s *stage) backendStats(ctx context.Context) (backends []api.Backend, err error) {
	err = s.proxy.Until(ctx, "all sessions have ended", func() (bool, error) {
		all, err := s.admin.Stats(ctx)
		if err != nil {
			return false, err
		}
		backends = all.Backends
		busy := 0
		for _, b := range backends {
			busy += b.Leased + b.Resetting
		}
		return busy == 0, nil
	})
	return backends, err
}

// sameServer reports whether two URLs lead to the same server.
func sameServer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }
