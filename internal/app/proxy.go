package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/follow"
	"github.com/wsbouncer/wsbouncer/internal/config/memory"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/fleet/peers"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/accesslog"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/live"
	"github.com/wsbouncer/wsbouncer/internal/operate/metrics"
	"github.com/wsbouncer/wsbouncer/internal/operate/problems"
	"github.com/wsbouncer/wsbouncer/internal/operate/tracing"
	"github.com/wsbouncer/wsbouncer/internal/operate/usage"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/discovery"
	"github.com/wsbouncer/wsbouncer/internal/session"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/wire/acme"
	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Proxy is a running proxy. Its methods may be called from any goroutine.
type Proxy struct {
	settings  Settings                 // at the start
	order     []string                 // of the backends that flags describe
	live      atomic.Pointer[Settings] // settings that can change at run time are read from here
	version   string
	log       *slog.Logger
	started   time.Time
	process   record.Process // of its sessions; static
	store     config.Store
	follower  *follow.Follower
	inMemory  *config.Snapshot // the first one, if the configuration ends with the process; nil otherwise; static
	loops     *loop.Group
	services  *services.Services
	sessions  *session.Server
	listeners []net.Listener    // for clients: those without TLS, and then those with it
	plain     int               // how many of listeners speak no TLS
	secured   *secure.Listeners // the TLS of the others; nil for none
	acme      *acme.Manager     // of certificates that an authority issues; nil for none
	admin     *http.Server      // nil without an admin API
	adminAt   []net.Listener
	// inheritance is the listening sockets as they are without TLS; succession is what is known of the process that gets them.
	inheritance inheritance
	succession  succession
	// apart serves the admin API at addresses of this process alone after a successor has taken over those of the settings; nil before
	// that. It is owned by the take-over under way, and by Close after that.
	apart   *http.Server
	apartAt atomic.Pointer[[]net.Addr] // the addresses of apart, for any goroutine; nil for none
	// adminSecured is the TLS of the admin API's address; nil for none; static.
	adminSecured *secure.Listeners
	hub          *live.Hub            // nil without an admin API
	problems     *problems.Keeper     // nil until the proxy runs; static after that
	lags         atomic.Pointer[lags] // stored by problems' goroutine; nil before its first look
	guard        *panics.Guard        // nil to let panics end the process
	scopes       *limits.Registry     // of the process, tenants and keys; static
	replay       *replay.Arena        // memory for what another server, or a client that comes back, may have to get; static
	authGuard    *auth.Guard          // against clients that guess credentials; static
	tracer       *tracing.Tracer      // nil for none; static
	// accessLog is the present access log; nil for none. accessLines are those of all of them.
	accessLog   atomic.Pointer[accesslog.Log]
	accessLines accesslog.Counters
	// descriptors accounts for the process's file descriptors.
	descriptors *machine.Descriptors
	ledger      peers.Ledger // nil for none; static
	// announced are the addresses at which the ledger was told that this process is, as keys: one, and another one during an upgrade.
	announced   sync.Map
	fleet       *membership       // nil for none; static
	peers       *peers.Peers      // nil without an admin API; static
	fleetCA     *x509.CertPool    // of other proxies' admin APIs; nil for the system's; static
	warnedHosts string            // the last warning about hosts without a certificate; owned by warnOfHosts
	secrets     *secret.Source    // of what backends refer to; static
	warnedOf    []string          // the last warnings about secrets; owned by warnOfSecrets
	warned      map[string]string // the last warnings about this machine's limits, by resource; owned by warnOfNeeds
	stopped     context.Context   // ends when the proxy is closed
	stop        context.CancelFunc
	background  sync.WaitGroup // goroutines that end when the proxy is closed

	history history       // whether this process keeps the history in the state directory
	ends    ends          // the sessions that have ended, over restarts
	usage   *usage.Ledger // nil until the proxy runs; static after that
	disks   disks         // of the state, database and access log

	end          atomic.Pointer[ending] // nil until the end of the process begins; written by Drain
	accepts      bool                   // Accept was called; owned by who calls Accept and Drain
	clean        bool                   // what Drain returned; owned by who calls it, and Close
	reconfigured chan struct{}          // of size one: Reconfigure has changed settings
}

// Start checks the settings, opens the listeners, reads the configuration, and starts to serve clients and to fill the pools. An
// unreachable backend is not an error: the proxy dials it until it answers. If the configuration cannot be read, Start tries for
// some time; when ctx ends meanwhile, it returns ctx's error. Shutdown ends the proxy.
func Start(ctx context.Context, o Settings, version string, log *slog.Logger) (*Proxy, error) {
	fixed, err := o.check()
	if err != nil {
		return nil, err
	}
	if err := dialfrom.Check(o.Sources()); err != nil {
		return nil, fmt.Errorf("--dial-from: %w", err)
	}
	p := &Proxy{settings: o, version: version, log: log, started: time.Now(), reconfigured: make(chan struct{}, 1), ledger: o.ledger}
	p.secrets = o.Settings.Secrets()
	if fixed != nil {
		p.secrets.Given = fixed.references()
	}
	p.inheritance.given = o.Inherited
	p.succession.taken = make(chan struct{})
	p.live.Store(&o)
	p.stopped, p.stop = context.WithCancel(context.Background())
	if err := p.readFleetCA(); err != nil {
		return nil, err
	}
	if err := p.listen(); err != nil {
		p.closeListeners()
		return nil, err
	}
	if err := p.serve(ctx, fixed); err != nil {
		p.closeListeners()
		p.stop()
		return nil, err
	}
	return p, nil
}

// serve creates the parts, connects them, and accepts clients.
func (p *Proxy) serve(ctx context.Context, fixed *fixed) (err error) {
	o := loop.Options{Max: p.settings.Loops, IOURing: loop.IOURing(p.settings.IOURing), Wait: loop.Wait(p.settings.LoopWait)}
	if p.settings.RecoverPanics {
		p.guard = panics.NewGuard(p.log)
		o.OnPanic = func(value any) { p.guard.Caught("event loop", value) }
	}
	if p.loops, err = loop.NewGroup(o); err != nil {
		return fmt.Errorf("starting event loops with --io-uring %s and --loop-wait %s: %w", p.settings.IOURing, p.settings.LoopWait, err)
	}
	if _, refused := p.loops.IOURing(); refused != nil {
		p.log.Info("sending without io_uring", "reason", refused)
	}
	p.descriptors = p.countDescriptors()
	meters := meter.NewRegistry(len(p.loops.Loops()))
	p.scopes = limits.NewRegistry()
	p.scopes.SetProcess(limits.Instant(loop.Now()), p.settings.Total())
	p.authGuard = auth.NewGuard(p.settings.FailedAuthRate, p.log, time.Now)
	p.replay = replay.NewArena(p.settings.replayMemory())
	shared := record.NewShared(p.scopes, p.guard, p.log)
	p.process = shared.Process
	sessions := session.Options{
		Shared: shared,
		Admission: admission.Options{
			Limits: p.settings.limits(), Origin: p.settings.origin(), Health: admission.Health{Path: p.settings.HealthPath, Ready: p.healthy},
			AuthGuard: p.authGuard, Descriptors: p.descriptors, Refused: p.clientRefused, Elsewhere: p.forward,
		},
		Relay: relay.Options{Loops: p.loops, Meters: meters, Replay: p.replay, Ended: p.sessionEnded, Book: p.bookUsage},
	}
	p.startTracing(&sessions)
	p.sessions = session.NewServer(sessions)
	p.fleet = p.newMembership()
	p.services = services.New(services.Options{
		Loops: p.loops, SetRoutes: p.sessions.SetServices, CheckCredentials: p.sessions.CheckCredentials, Scopes: p.scopes, LimitsChanged: p.sessions.LimitsChanged, Descriptors: p.descriptors, DialFrom: p.settings.Sources(), Meters: meters, Guard: p.guard, Log: p.log,
		InForce:  p.warnOf,
		Secrets:  p.secrets,
		Resolver: discovery.NewResolver(p.settings.DNSServer), Own: func(address netip.AddrPort) bool { return listensAt(p.Addresses(), address) },
		MoveAway: func(b *backend.Backend) { p.sessions.MoveAway(b, moveAwayTime) },
		Fleet:    p.fleet != nil, Demand: p.poke, Permission: p.permission(),
	})
	p.joinFleet()
	if err = p.follow(ctx, fixed); err != nil {
		p.sessions.StopAccepting()
		p.services.Close(context.Background())
		unlock := p.leaveFleet()
		p.descriptors.Close()
		p.loops.Close()
		unlock()
		p.endTracing()
		return err
	}
	p.awaitGrants(ctx)
	p.background.Go(func() { p.trimmer(p.stopped) })
	p.claimHistory()
	p.keepEnds()
	p.keepUsage()
	p.background.Go(func() { p.disks.run(p.stopped, p.directoriesInUse) })
	p.useAccessLog()
	p.watchProblems()
	p.prepareAdmin(p.store)
	if !p.settings.Held {
		p.Accept()
	}
	return nil
}

// Accept accepts clients, and callers of the admin API. Start does it, unless the settings hold it back.
func (p *Proxy) Accept() {
	p.accepts = true
	for _, s := range p.inheritance.open {
		if unix, ok := s.Listener.(*net.UnixListener); ok && !s.Foreign {
			unix.SetUnlinkOnClose(true)
		}
	}
	p.serveClients()
	p.serveAdmin()
	if p.fleet != nil {
		p.fleet.serves.Store(true)
		p.poke()
	}
	releaseProgram()
}

// Kept returns the numbers of the inherited sockets that are in use.
func (p *Proxy) Kept() []int { return p.inheritance.kept }

// follow opens the configuration store and puts the first snapshot in force.
func (p *Proxy) follow(ctx context.Context, fixed *fixed) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if path, missing := stores.Missing(p.settings.Database); missing && fixed == nil && filepath.Dir(path) != filepath.Clean(p.settings.StateDirectory) {
		p.log.Warn("the database does not exist yet: it begins empty", "file", path)
	}
	store, source, copyFile, err := p.settings.openStore(fixed)
	if err != nil {
		return err
	}
	p.follower, err = follow.Start(ctx, follow.Options{
		Store: store, Source: source, Origin: stores.Absolute(p.settings.Database), CopyFile: copyFile, Apply: p.apply, Log: p.log,
	})
	if err != nil {
		_ = store.Close()
		return err
	}
	p.store = store
	if _, is := store.(*memory.Store); is {
		p.inMemory = p.services.Snapshot()
	}
	if p.fleet != nil {
		p.fleet.follower.Store(p.follower)
	}
	if fixed != nil {
		p.order = fixed.names
	} else {
		p.log.Info("configuration", "source", source, "version", p.follower.Status().Version)
		if p.services.Count() == 0 {
			p.log.Info("no services yet: clients get HTTP 404 until you add one (wsbouncer service add)")
		}
	}
	return nil
}

// limits returns the limits of clients that have no session yet.
func (s *Settings) limits() admission.Limits {
	return admission.Limits{
		MaxHead: int(s.MaxHeader), HandshakeTimeout: s.HandshakeTimeout, MaxHandshakes: s.MaxHandshakes, ClientTimeout: max(s.ClientTimeout, 0),
	}
}

// origin returns who is believed about where clients come from.
func (s *Settings) origin() *origin.Policy {
	policy, err := origin.NewPolicy(s.TrustedProxies, s.ForwardedHeader, s.ProxyProtocol)
	if err != nil {
		panic(err) // Check has accepted them
	}
	return policy
}

// Reconfigure applies those of the process's settings that can change while the proxy runs: the limits of
// upgrade requests, how often clients may fail to authenticate, what all of them may use together, the memory for failover, whom it trusts
// about where clients come from, TLS towards clients, the times that its end may take, the access log, and the admin API's tokens. All
// others stay what they were. It reads the files of certificates and canaries again, even if no setting has changed. The
// settings must have passed Check. It must not be called by two goroutines at a time.
func (p *Proxy) Reconfigure(process settings.Settings, tokens settings.Tokens) {
	before := p.live.Load()
	now := *before
	now.Settings, now.Tokens = process, tokens
	p.live.Store(&now)
	p.sessions.SetLimits(now.limits())
	p.sessions.SetOrigin(now.origin())
	p.authGuard.SetRate(now.FailedAuthRate)
	p.replay.SetLimit(now.replayMemory())
	if p.scopes.SetProcess(limits.Instant(loop.Now()), now.Total()) {
		p.sessions.LimitsChanged()
	}
	p.reloadCertificates()
	if err := p.services.ReadCanaries(); err != nil { // it was good before
		p.log.Error("canaries cannot be read again", "reason", err)
	}
	tasks.Wake(p.reconfigured)
	if p.tracer != nil {
		p.tracer.SetRatio(now.TraceRatio)
	}
	if now.AccessLog != before.AccessLog || now.AccessLogFormat != before.AccessLogFormat {
		p.useAccessLog()
	}
}

// listen opens all listeners, or returns an error.
func (p *Proxy) listen() error {
	for _, address := range p.settings.Listen {
		listener, err := p.inheritance.listenTCP(takeover.Plain, address)
		if err != nil {
			return err
		}
		p.listeners = append(p.listeners, listener)
	}
	if err := p.listenTLS(); err != nil {
		return err
	}
	if err := p.listenAdmin(); err != nil {
		return err
	}
	unused := p.inheritance.unused()
	if len(unused) > 0 && unused[0].Kind == "" {
		return errStrangeSockets(unused)
	}
	for _, s := range unused {
		_ = s.Listener.Close()
		p.log.Info("an address of the running process is no longer served", "address", s.Listener.Addr().String(), "was", string(s.Kind))
	}
	return nil
}

func (p *Proxy) closeListeners() {
	if p.acme != nil {
		p.acme.Close()
	}
	for _, listener := range slices.Concat(p.listeners, p.adminAt) {
		_ = listener.Close()
	}
}

// Addresses returns the addresses on which clients are served.
func (p *Proxy) Addresses() []net.Addr {
	var addresses []net.Addr
	for _, listener := range p.listeners {
		addresses = append(addresses, listener.Addr())
	}
	return addresses
}

// AdminAddress returns the TCP address of the admin API; nil for none.
func (p *Proxy) AdminAddress() net.Addr {
	for _, listener := range p.adminAt {
		if at := listener.Addr(); at.Network() == "tcp" {
			return at
		}
	}
	return nil
}

// Stats returns the statistics of all parts.
func (p *Proxy) Stats() api.Stats { return p.snapshot().Stats }

// snapshot returns the statistics of all parts, and what was counted for each backend. It looks at no session: with thousands, that takes both processors
// of a small machine for 10 ms, and monitoring asks often.
func (p *Proxy) snapshot() metrics.Snapshot {
	sessions := p.sessions.Stats()
	all := api.Stats{
		Version: p.version, UptimeSeconds: time.Since(p.started).Seconds(),
		Sessions: api.Sessions{
			Active: sessions.Active, Total: sessions.Total, Refused: sessions.Refused, Ended: make(map[uint16]uint64, len(sessions.Ended)),
			Handshakes: api.Handshakes{Unfinished: sessions.Handshakes, Limit: sessions.MaxHandshakes, Dropped: sessions.Dropped},
			Reconnects: reconnects(&sessions),
		},
		Relayed:        api.Relayed(sessions.Meters.Total.Relayed),
		Authentication: authentication(&sessions),
		Limits:         limitsReached(&sessions),
		InternalErrors: p.guard.Count(),
		AccessLog:      api.AccessLog{Lines: p.accessLines.Written.Load(), LeftOut: p.accessLines.LeftOut.Load()},
		Configuration:  configuration(p.follower.Status()),
		Disks:          p.disks.shown(),
	}
	for _, short := range []error{p.descriptors.Accepting(), p.descriptors.Dialing()} {
		if short != nil {
			all.Shortages = append(all.Shortages, short.Error())
		}
	}
	if end := p.end.Load(); end != nil {
		all.Draining, all.Drain = true, end.shown(&p.live.Load().Settings, p.sessions.Stopped())
	}
	if p.ledger != nil {
		shown := p.fleetShown()
		all.Fleet = &shown
	}
	all.TLS = p.tls(sessions.TLS)
	p.services.Stats(&all)
	limitedStats(&all, sessions.Limited)
	p.failoverStats(&all, sessions.Meters.Backends)
	if read := p.lags.Load(); read != nil {
		lagStats(&all, read)
	}
	p.usageStats(&all)
	p.problemStats(&all)
	slices.SortStableFunc(all.Backends, func(a, b api.Backend) int { return p.place(&a) - p.place(&b) })
	for code, n := range sessions.Ended {
		all.Sessions.Ended[uint16(code)] = n
	}
	loops, moved := p.loops.Stats()
	all.Loops.Moved = moved
	for _, l := range loops {
		all.Loops.Loops = append(all.Loops.Loops, api.Loop(l))
		if l.Awake {
			all.Loops.Awake++
		}
	}
	return metrics.Snapshot{Stats: all, Meters: sessions.Meters, Turns: p.loops.Turns()}
}

// place returns a backend's place in the statistics: in the order of the flags, and then all others.
func (p *Proxy) place(b *api.Backend) int {
	if i := slices.Index(p.order, cmp.Or(b.DiscoveredFrom, b.Name)); i >= 0 {
		return i
	}
	return len(p.order)
}
