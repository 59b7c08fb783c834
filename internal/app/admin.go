package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/dashboard"
	"github.com/wsbouncer/wsbouncer/internal/operate/live"
	"github.com/wsbouncer/wsbouncer/internal/operate/metrics"
)

// listenAdmin opens the addresses of the admin API: TCP for monitoring, a unix socket for commands on this machine.
func (p *Proxy) listenAdmin() error {
	s := &p.settings
	if s.Admin != "" {
		listener, err := p.inheritance.listenTCP(takeover.Admin, s.Admin)
		if err != nil {
			return err
		}
		secured, err := p.secureAdmin(machine.KeepDescriptors(listener))
		if err != nil {
			_ = listener.Close()
			return err
		}
		p.adminAt = append(p.adminAt, secured)
	}
	if s.AdminSocket != "" {
		sweepApart(filepath.Dir(s.AdminSocket))
		listener, err := p.inheritance.listen(takeover.AdminSocket, s.AdminSocket, func() (net.Listener, error) { return listenSocket(s.AdminSocket) })
		if machine.Disk(err) { // clients are more important
			p.log.Error("no admin socket: commands on this machine do not reach this proxy", "address", "unix:"+s.AdminSocket, "reason", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("--admin-socket: %w", err)
		}
		p.adminAt = append(p.adminAt, machine.KeepDescriptors(listener))
	}
	return nil
}

// listenSocket opens a unix socket. It removes a socket that another process has left behind, unless a process still serves it.
func listenSocket(path string) (net.Listener, error) {
	if len(path) > state.MaxSocketPath {
		return nil, fmt.Errorf("the path %s has %d bytes: use at most %d", path, len(path), state.MaxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("%s exists and is not a socket", path)
		}
		if other, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = other.Close()
			return nil, fmt.Errorf("another process is serving %s", path)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil { // who can write to the socket can change the configuration
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

// prepareAdmin makes the admin API, which answers no request yet.
func (p *Proxy) prepareAdmin(store config.Store) {
	if len(p.adminAt) == 0 {
		return
	}
	audit := admin.NewAudit(p.log)
	socket, commands := p.waysIn()
	p.hub = live.Start(live.Options{Source: p.watched(audit), Guard: p.guard, Log: p.log})
	p.admin = admin.NewServer(p.identified(p.sparing(p.fleetwide(admin.Handler(admin.Source{
		Ready: p.readiness, Stats: p.Stats, Metrics: p.metrics(), Dashboard: dashboard.Handler(),
		Configuration: remote.Handler(store, remote.HandlerOptions{InForce: p.inForce, Profiles: config.CheckProfiles, Refuse: p.refuse, Changed: noteChange(audit), Hides: maySeeNoSecrets}),
		LogLevel:      admin.LogLevel{Get: p.LogLevel, Set: p.SetLogLevel, Allowed: settings.LogLevels},
		Settings:      p.settings.Own,
		Sessions:      p.sessionsAPI(),
		Movers:        p.movers(),
		Actions:       p.actions(),
		Backends:      p.backendsInUse,
		Upgrades:      p.upgrades(),
		Proxies:       p.proxies(),
		Forward:       p.takeForwarded,
		Problems:      p.problems.List,
		Usage:         p.reportUsage,
		Commands:      commands,
		Audit:         audit, History: p.hub.History, Subscribe: p.hub.Subscribe, Tap: p.startTap,
	}, admin.Access{
		Token:       func() string { return p.live.Load().Token },
		ReaderToken: func() string { return p.live.Load().ReaderToken },
		Trusted:     trusted,
		Peer: func(r *http.Request, operator, reader string) (string, bool, bool, error) {
			return p.peers.Proven(r, operator, reader)
		},
		Socket:  socket,
		Guesses: auth.NewGuard(limits.Rate{N: 10, Per: time.Minute}, p.log, time.Now),
	})))), admin.Limits{}, p.log)
}

// waysIn returns the path of the admin socket, empty for none, and the --admin with which commands on this machine reach the proxy, empty if they need none.
func (p *Proxy) waysIn() (socket, commands string) {
	for _, listener := range p.adminAt {
		switch at := listener.Addr().(type) {
		case *net.UnixAddr:
			socket = at.Name
			if absolute, err := filepath.Abs(socket); err == nil {
				socket = absolute
			}
		case *net.TCPAddr:
			near := *at
			if at.IP.IsUnspecified() {
				near.IP = net.IPv4(127, 0, 0, 1)
			}
			commands = p.adminURL(&near)
		}
	}
	switch {
	case socket != "" && state.IsFound(socket):
		commands = ""
	case socket != "":
		commands = "unix:" + socket
	}
	return socket, commands
}

// serveAdmin starts the admin API.
func (p *Proxy) serveAdmin() {
	if p.admin == nil {
		return
	}
	p.keepAdminTLS()
	p.serveAdminAt(p.admin, p.adminAt)
}

// serveAdminAt has a server of the admin API answer at addresses, until it is closed.
func (p *Proxy) serveAdminAt(server *http.Server, at []net.Listener) {
	for _, listener := range at {
		go func() { _ = server.Serve(&enduring{listener, p.log}) }()
		p.log.Info("admin API", "address", p.adminURL(listener.Addr()))
	}
}

// enduring is a listener that hands on no error but that it is closed: a server of package http would end if the machine was short of memory for a
// moment, and nobody could ask the process any more.
type enduring struct {
	net.Listener
	log *slog.Logger
}

// Accept implements [net.Listener].
func (l *enduring) Accept() (net.Conn, error) {
	const pause = 100 * time.Millisecond
	for failed := false; ; failed = true {
		nc, err := l.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return nc, err
		}
		if !failed {
			l.log.Warn("the admin API accepts no connections for now", "address", l.Addr().String(), "reason", err)
		}
		time.Sleep(pause)
	}
}

// adminURL returns an address of the admin API as commands take it.
func (p *Proxy) adminURL(at net.Addr) string {
	switch {
	case at.Network() == "unix":
		return "unix:" + at.String()
	case p.adminSecured != nil:
		return "https://" + at.String()
	}
	return "http://" + at.String()
}

// maySeeNoSecrets reports whether the caller of the API is a reader.
func maySeeNoSecrets(r *http.Request) bool { return admin.CallerOf(r).Role != api.RoleOperator }

// noteChange returns what notes changes of the configuration in the audit log. What they changed is in the configuration's history.
func noteChange(audit *admin.Audit) func(*http.Request, config.Change, string, error) {
	return func(r *http.Request, c config.Change, version string, err error) {
		order := api.Order{Who: printable.Text(c.Who, maxTold), Why: printable.Text(c.Why, maxTold)}
		if err != nil {
			audit.NoteFailure(r, "configure", changed(c), order, err)
			return
		}
		audit.Note(r, "configure", changed(c), order, "version "+version)
	}
}

// maxTold limits the texts that the audit log shows of a change, in bytes.
const maxTold = 500

// changed names what a change is about: one entity, or how many.
func changed(c config.Change) string {
	switch {
	case c.Content != nil:
		return "all"
	case len(c.Mutations) == 0:
		return ""
	}
	target := fmt.Sprintf("%s %s %.100s", c.Mutations[0].Verb, c.Mutations[0].Kind, c.Mutations[0].Name)
	if more := len(c.Mutations) - 1; more > 0 {
		target += fmt.Sprintf(" and %d more", more)
	}
	return printable.Text(target, maxTold)
}

// watched returns what the history and the stream of events show.
func (p *Proxy) watched(audit *admin.Audit) live.Source {
	return live.Source{Stats: p.Stats, Totals: p.counted, Sessions: p.sampleSessions, Name: p.nameSession, Ended: p.endedSessions, Audit: audit.Since}
}

// trusted returns the role of who sends a request without a token: an operator at the admin socket, whose file says who may connect to it, and a
// reader at a loopback address, to which any user of this machine can connect, and any container or pod that shares its network.
func trusted(r *http.Request) (role string) {
	switch at := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.UnixAddr:
		return api.RoleOperator
	case *net.TCPAddr:
		if at.IP.IsLoopback() {
			return api.RoleReader
		}
	}
	return ""
}

// liveHeap adds go_gc_heap_live_bytes: what was in use after the last garbage collection, which shows a leak sooner than what is allocated.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}

// metrics returns the handler for Prometheus: the statistics, and the metrics of the Go runtime and of the process. If one metric
// fails, the others are still shown.
func (p *Proxy) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(p.snapshot),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		Registry:      registry, // for the number of scrapes that failed
		ErrorHandling: promhttp.ContinueOnError,
		// Compressing takes longer than everything else together, and Prometheus is usually near.
		DisableCompression: true,
		ErrorLog:           scrapeLog{p.log},
	})
}

// scrapeLog logs why a metric is missing in a scrape. For one whose client has left, that would be a line for each metric: it logs none.
type scrapeLog struct{ log *slog.Logger }

// Println implements [promhttp.Logger].
func (l scrapeLog) Println(v ...any) {
	if err, ok := v[len(v)-1].(error); !ok || !errors.As(err, new(*net.OpError)) {
		l.log.Warn(strings.TrimSuffix(fmt.Sprintln(v...), "\n"))
	}
}
