package app

import (
	"fmt"
	"os"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
)

// FixedService is the name of the only service in flags-only operation.
const FixedService = "default"

// content returns what flags say as a configuration: one service, and its backends.
func (p *plan) content() (config.Content, error) {
	s := &p.settings
	content := config.NewContent()
	p.order = make(map[string]int)
	content.Services[FixedService] = config.Service{
		Path: s.Path, Profile: s.Profile, Subprotocol: s.Subprotocol, AllowOrigin: s.Origins,
		Balance: s.Balance, HashBy: s.HashBy, Queue: s.Queue, QueueTimeout: s.QueueTimeout,
		MaxMessage: s.MaxMessage, IdleTimeout: s.IdleTimeout, MaxSession: s.MaxSession,
		ConnectionMaxAge: s.ConnectionMaxAge, ConnectionMaxIdle: s.ConnectionMaxIdle, ConnectionMaxSessions: s.ConnectionMaxSessions,
		DialParallel: s.DialParallel, DialTimeout: s.DialTimeout, ResetTimeout: s.ResetTimeout, CloseTimeout: s.CloseTimeout,
		PingInterval: s.PingInterval, PingTimeout: s.PingTimeout, TCPUserTimeout: s.UserTimeout,
		Probe: s.Probe, ProbeInterval: s.ProbeInterval, ProbeTimeout: s.ProbeTimeout, ProbeFall: s.ProbeFall, ProbeRise: s.ProbeRise,
		CircuitFailures: s.CircuitFailures, SlowStart: s.SlowStart,
	}
	for i, b := range p.backends {
		name := backendName(b.target.URL, content.Backends)
		p.order[name] = i
		content.Backends[name] = config.Backend{
			Service: FixedService, URL: b.target.URL, Connections: b.settings.Cap, Warm: b.settings.Warm, Weight: b.settings.Weight,
			State: b.mode.String(),
		}
	}
	for _, path := range s.ProfileFiles {
		data, err := os.ReadFile(path)
		if err != nil {
			return content, err
		}
		own, err := file.Decode(path, data, nil)
		if err != nil {
			return content, err
		}
		for name, profile := range own.Profiles {
			content.Profiles[name] = profile
		}
	}
	return content, nil
}

// backendName returns a name for a backend that has none but its URL: ws://10.0.0.5:2700/stt is 10.0.0.5-2700-stt.
func backendName(url string, taken map[string]config.Backend) string {
	const most = 50
	_, text, _ := strings.Cut(url, "://")
	text, _, _ = strings.Cut(text, "?")
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, text), "-._")
	name = name[:min(len(name), most)]
	unique := name
	for n := 2; ; n++ {
		if _, ok := taken[unique]; !ok {
			return unique
		}
		unique = fmt.Sprintf("%s-%d", name, n)
	}
}
