package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// through is a backend that is calibrated via the proxy: it is drained, and moves to a service of its own at a path that nobody can guess, until it is put
// back. The changes of the configuration are those that an operator could make.
type through struct {
	backend string
	before  config.Values // of the backend
	set     config.Values // what it may have instead, until it is put back
	most    int
	path    string

	target *target // its proxy answers for the whole fleet
	limits *proxyLimits
	to     io.Writer // gets what is changed
	cmd    *cobra.Command
	taken  bool            // the backend must be put back
	last   context.Context // for that
	ended  atomic.Bool     // the search has ended, or soon will
}

// newThrough returns the backend, unless it cannot be taken from its service's clients.
func newThrough(cmd *cobra.Command, t *target, backend, profile string, most int) (*through, error) {
	if t.proxy == nil {
		return nil, usageError(errors.New("--through needs a running proxy: use --admin instead of --database, or both"))
	}
	content, _, err := t.content(cmd.Context())
	if err != nil {
		return nil, err
	}
	if err := known(&content, config.KindBackend, backend); err != nil {
		return nil, err
	}
	b := content.Backends[backend]
	p := &through{backend: backend, before: make(config.Values), most: most, path: "/calibrate-" + rand.Text(), target: t, to: cmd.ErrOrStderr(), cmd: cmd}
	p.limits = &proxyLimits{proxy: t.proxy.API().Local(), backend: backend}
	for _, field := range []string{"service", "connections", "warm", "weight", "state"} {
		p.before[field] = content.Value(config.KindBackend, backend, field)
	}
	switch has := content.Services[b.Service].Profile; {
	case b.Service == p.service():
		return nil, fmt.Errorf("--through: the backend %s is in the service %s of another calibration: if that was killed, put the backend back first, with the commands that it printed (what was before is in 'wsbouncer config history')",
			backend, b.Service)
	case b.Discovers():
		return nil, fmt.Errorf("--through: the backend %s stands for several servers: calibrate one of them directly", backend)
	case b.State != enabling.state:
		return nil, fmt.Errorf("--through: the backend %s is %s: enable it, or calibrate its server directly", backend, b.State)
	case has != profile:
		return nil, fmt.Errorf("--through: the service %s of the backend %s has the profile %s, not %s", b.Service, backend, has, profile)
	case content.Has(config.KindService, p.service()):
		return nil, fmt.Errorf("--through: the service %s exists: it is left from a calibration that was killed. Put the backend back first:\n%s", p.service(), p.words())
	}
	var now api.Stats
	if err := t.proxy.API().Get(cmd.Context(), api.StatsPath, nil, &now); err != nil {
		return nil, err
	}
	if now.Fleet != nil && len(now.Fleet.Missing) > 0 {
		m := &now.Fleet.Missing[0]
		return nil, fmt.Errorf("--through: another proxy may have sessions on the backend %s: %s (once it is known to be gone: wsbouncer proxy forget %s)", backend, m, m.ID)
	}
	return p, p.othersServe(&now)
}

// served returns an error unless the clients of the backend's service have another backend. A nil pointer is for no proxy.
func (p *through) served() error {
	if p == nil {
		return nil
	}
	var now api.Stats
	if err := p.target.proxy.API().Get(p.cmd.Context(), api.StatsPath, nil, &now); err != nil {
		return err
	}
	return p.othersServe(&now)
}

// othersServe returns an error unless the service has another backend that takes sessions, in a fleet for the clients of each proxy.
func (p *through) othersServe(now *api.Stats) error {
	takes := make(map[string]bool) // by proxy, empty for one without a fleet
	for i := range now.Backends {
		b := &now.Backends[i]
		if b.Service != p.before["service"] || b.Name == p.backend || b.Weight == 0 {
			continue
		}
		parts := b.Proxies
		if len(parts) == 0 {
			parts = []api.BackendPart{{State: b.State, Usable: b.Usable}}
		}
		for _, part := range parts {
			takes[part.Proxy] = takes[part.Proxy] || part.Usable && part.State == enabling.state
		}
	}
	var without []string
	for proxy, has := range takes {
		if !has {
			without = append(without, proxy)
		}
	}
	if len(takes) > 0 && len(without) == 0 {
		return nil
	}
	slices.Sort(without)
	where := strings.TrimSuffix(" at "+strings.Join(without, ", "), " at ")
	return fmt.Errorf("--through: the service %s has no other backend that takes sessions now%s, which its clients need", p.before["service"], where)
}

// service is the name of the backend's own service.
func (p *through) service() string { return "calibrate-" + p.backend }

// words are the commands that put the backend back.
func (p *through) words() string {
	return fmt.Sprintf("  wsbouncer backend set %s --service %s --connections %s --warm %s --weight %s --state %s\n  wsbouncer service rm %s",
		p.backend, p.before["service"], p.before["connections"], p.before["warm"], p.before["weight"], p.before["state"], p.service())
}

// take drains the backend and moves it to its own service. It returns the URL of that service at the proxy's address for clients.
func (p *through) take(argument string) (address string, err error) {
	at, err := url.Parse(argument)
	if err != nil {
		return "", usageError(fmt.Errorf("argument URL: %w", err))
	}
	content, _, err := p.target.content(p.cmd.Context())
	if err != nil {
		return "", err
	}
	own, address, err := p.own(&content, at)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(p.to, "The backend %s is drained and gets a service of its own, at a random path. It is put back at the end, also after Ctrl-C. If this command is killed or crashes:\n%s\n", p.backend, p.words())
	p.taken = true // from here on, it must be put back
	p.set = config.Values{"service": p.service(), "connections": strconv.Itoa(p.most), "warm": "0", "weight": "1", "state": draining.state}
	version, err := p.change(p.cmd.Context(), "", "drained", config.Mutation{Verb: config.Set, Kind: config.KindBackend, Name: p.backend, Values: config.Values{"state": draining.state}})
	if err != nil {
		return "", err
	}
	w := &waiter{proxy: p.target.proxy.API(), names: []string{p.backend}, to: draining, timeout: 10 * time.Minute, every: pollEvery, messages: p.to, version: version}
	if err := w.run(p.cmd.Context()); err != nil {
		return "", fmt.Errorf("%s is not drained: %s", p.backend, strings.TrimSuffix(err.Error(), staysInForce)) // it is put back
	}
	moved := maps.Clone(p.set)
	moved["state"] = enabling.state
	version, err = p.change(
		p.cmd.Context(), "", "in its own service",
		config.Mutation{Verb: config.Add, Kind: config.KindService, Name: p.service(), Values: own},
		config.Mutation{Verb: config.Set, Kind: config.KindBackend, Name: p.backend, Values: moved},
	)
	if err != nil {
		return "", err
	}
	p.set = moved
	w = &waiter{proxy: p.target.proxy.API(), names: []string{p.backend}, to: enabling, every: pollEvery, version: version}
	if err := w.inForce(p.cmd.Context()); err != nil {
		return "", err
	}
	p.limits.look(p.cmd.Context())
	return address, p.limits.met
}

// seenByServers are the fields of a service that decide what its servers get of a client's session.
var seenByServers = []string{
	"profile", "subprotocol", "pass", "max-message", "connection-max-age", "connection-max-idle", "connection-max-sessions", "dial-timeout",
	"close-timeout", "ping-interval", "ping-timeout", "keepalive", "set-header", "set-query",
}

// own returns the fields of the backend's own service, and its URL for a client that would connect to at.
func (p *through) own(content *config.Content, at *url.URL) (own config.Values, address string, err error) {
	own = config.Values{"path": p.path, "slow-start": "0s", "circuit-failures": "1000000"}
	for _, field := range seenByServers {
		own[field] = content.Value(config.KindService, p.before["service"], field)
	}
	host := strings.ToLower(strings.TrimSuffix(at.Hostname(), "."))
	for _, service := range content.Services {
		if service.Host == host { // it would come before a service for any host
			own["host"] = host
		}
	}
	rest := ""
	if service := content.Services[p.before["service"]]; slices.Contains(service.Pass, "path") {
		prefix := (&url.URL{Path: strings.TrimRight(service.Path, "/")}).EscapedPath()
		within := false
		rest, within = strings.CutPrefix(at.EscapedPath(), prefix)
		switch {
		case at.Path == "" || at.Path == "/":
			rest = ""
		case !within || rest != "" && rest[0] != '/':
			return nil, "", usageError(fmt.Errorf("argument URL: the path %s is not within that of the service %s, %s", at.EscapedPath(), p.before["service"], service.Path))
		}
	}
	to := *at
	to.RawPath = p.path + rest
	to.Path, err = url.PathUnescape(to.RawPath)
	return own, to.String(), err
}

// change changes the configuration, if it has the version expected; empty for any.
func (p *through) change(ctx context.Context, expected, what string, mutations ...config.Mutation) (version string, err error) {
	after, err := p.target.Apply(ctx, config.Change{Expect: expected, Who: whoami(), Why: "calibrate --through", Mutations: mutations})
	if err != nil {
		return "", listed("the configuration was not changed", err)
	}
	fmt.Fprintf(p.to, "backend %s: %s (version %s)\n", p.backend, what, after.Version())
	return after.Version(), nil
}
