package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/config/follow"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	fleetpostgres "github.com/wsbouncer/wsbouncer/internal/fleet/postgres"
	"github.com/wsbouncer/wsbouncer/internal/fleet/presence"
	fleetsqlite "github.com/wsbouncer/wsbouncer/internal/fleet/sqlite"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/pgconnect"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
)

// Ledger is where the proxies of a fleet keep their grants.
type Ledger struct {
	Shown    string // for people: without a password
	database string // in PostgreSQL; empty for a file
	path     string // of the SQLite file
}

// Local reports whether all proxies that use the ledger run on this host.
func (l *Ledger) Local() bool { return l.database == "" }

// Ledger returns where the proxy keeps its grants; nil for nowhere, and why. The settings are as [settings.Settings.InUse] returns them.
func (s *Settings) Ledger() (ledger *Ledger, why string) {
	switch path, isSQLite := stores.SQLite(s.Database); {
	case s.Fleet != settings.FleetAuto:
		return nil, "fleet is off"
	case s.Database != "" && stores.PostgreSQL(s.Database):
		return &Ledger{Shown: s.DatabaseShown(), database: s.Database}, ""
	case s.Database != "" && isSQLite:
		if file, err := fileowner.Follow(path); err == nil { // proxies that name a link to it have the same ledger; the store reports the error
			path = file
		}
		path += "-fleet"
		return &Ledger{Shown: path, path: path}, ""
	}
	// In flags-only operation, only a directory that the operator has chosen for this proxy is used.
	directory := s.StateDirectory
	if directory == "" && os.Getenv("STATE_DIRECTORY") != "" {
		directory = s.Directory()
	}
	if directory == "" {
		return nil, "there is no database and no state-directory"
	}
	path := state.Fleet(directory)
	return &Ledger{Shown: path, path: path}, ""
}

// open opens the ledger's store. The store says at its first use what is wrong.
func (l *Ledger) open(log *slog.Logger) (fleet.Store, error) {
	if l.database == "" {
		return opened(fleetsqlite.Open(l.path, fleetsqlite.Options{Log: log}))
	}
	return opened(fleetpostgres.Open(l.database, fleetpostgres.Options{Log: log}))
}

// opened returns a store as what it is for the agent; nil with an error.
func opened[S fleet.Store](store S, err error) (fleet.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// folder returns the directory in which the processes of the fleet on this host hold their locks; empty for none.
func (l *Ledger) folder(s *Settings) string {
	if l.database == "" {
		return filepath.Dir(l.path)
	}
	return s.StateDirectory
}

// membership is a proxy's part in its fleet.
type membership struct {
	agent    *agent.Agent
	presence *presence.Presence
	id       fleet.ID
	host     string
	address  atomic.Pointer[string] // URL of the admin API as others reach it; nil as long as it is not known
	serves   atomic.Bool            // the proxy has accepted clients
	follower atomic.Pointer[follow.Follower]

	findAgain time.Time // owned by the agent's goroutine: not before this is the address looked for again; zero before it was looked for without success
}

// findPause is the time between two tries to find the address. Each may take a second, in which the proxy makes no exchange.
const findPause = 10 * time.Second

// grantsWait is how long the start waits for the first grants, so that the proxy is ready soon even if the ledger does not answer.
const grantsWait = 2 * time.Second

// joinFleet begins to share servers' places with other proxies, if there is a ledger.
func (p *Proxy) joinFleet() {
	if p.fleet == nil {
		return
	}
	s, f := &p.settings, p.fleet
	ledger, _ := s.Ledger()
	folder := ledger.folder(s)
	if folder != "" {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			folder = ""
			p.log.Warn("a proxy with the same state directory cannot prove that this one has ended", "reason", err)
		}
	}
	f.host = presence.Host()
	f.presence = presence.Open(presence.Options{
		ID: f.id, Directory: folder, OtherLedgers: ledger.Local(), Own: p.ownAddress, AnyRefusal: s.GrantRefused == settings.Anywhere, Log: p.log,
	})
	holder := fleet.HolderOptions{ID: f.id, Floor: s.GrantFloor, Share: s.GrantShare}
	if s.GrantTimeout != settings.Never {
		holder.Timeout = s.GrantTimeout
	}
	var memory agent.Memory // a local ledger is there whenever the host is
	switch {
	case ledger.Local():
	case s.GrantWithoutDatabase != settings.Automatic:
		holder.Without = s.GrantWithoutDatabase
	case folder != "":
		memory = newFleetMemory(state.FleetMemory(folder), ledger.Shown, f.presence.Instance(), p.log)
	}
	f.agent = agent.Start(agent.Options{
		Open:  func() (fleet.Store, error) { return ledger.open(p.log) },
		About: func() fleet.Member { return p.about(ledger) }, Learned: p.learned,
		Ledger: ledger.Shown, Local: ledger.Local(), Holder: holder, Pools: p.services, Presence: f.presence, Memory: memory, Log: p.log,
	})
	p.ledger = f.agent
}

// Lend has the proxy lend places to, and borrow places from, the process at the other end of a connection, which it has succeeded or that has succeeded it,
// while the database is away. A local ledger is always there. Lend owns the connection.
func (p *Proxy) Lend(conn net.Conn) {
	if ledger, _ := p.settings.Ledger(); p.fleet == nil || ledger.Local() || p.fleet.presence.Instance() == "" {
		_ = conn.Close()
		return
	}
	p.fleet.agent.Lend(conn)
}

// newMembership returns the proxy's part in its fleet; nil for none.
func (p *Proxy) newMembership() *membership {
	ledger, why := p.settings.Ledger()
	if ledger == nil {
		if p.settings.Fleet == settings.FleetAuto {
			p.log.Info("caps are not shared with other proxies", "reason", why)
		}
		return nil
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return &membership{id: fleet.ID(hex.EncodeToString(random[:]))}
}

// poke tells the agent that the pools' demand, the configuration or what the proxy does has changed.
func (p *Proxy) poke() {
	if p.fleet != nil && p.fleet.agent != nil {
		p.fleet.agent.Poke()
	}
}

// permission returns what says whether servers may be dialed, within the grants; nil for always, which costs nothing.
func (p *Proxy) permission() backend.Permission {
	if p.fleet == nil || p.settings.GrantTimeout == settings.Never {
		return nil
	}
	return p.fleet
}

// MayDial implements [backend.Permission]. Nothing is dialed before there is a configuration, which comes after the agent.
func (f *membership) MayDial() bool { return f.agent.MayDial() }

// awaitGrants waits until the ledger has answered what the configuration needs, but not for long.
func (p *Proxy) awaitGrants(ctx context.Context) {
	if p.fleet == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, grantsWait)
	defer cancel()
	p.fleet.agent.Sync(ctx)
}

// leaveFleet gives all places back. The pools must be closed, but a server may still have connections that it does not close. So the caller unlocks, which
// proves to others that this process has ended, when the loops are closed.
func (p *Proxy) leaveFleet() (unlock func()) {
	if p.fleet == nil {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), grantsWait)
	defer cancel()
	left := p.fleet.agent.Leave(ctx)
	return func() { p.fleet.presence.Close(left) }
}

// about says what the proxy is and does at this moment. It is called by the agent's goroutine.
func (p *Proxy) about(ledger *Ledger) fleet.Member {
	p.findAddress(ledger)
	m := fleet.Member{
		ID: p.fleet.id, Name: p.settings.Name(), Version: p.version, Schema: stores.Newest(p.settings.Database), Host: p.fleet.host, Process: string(p.process[:]),
		Instance: p.fleet.presence.Instance(), Started: p.started, State: fleet.Starting, Sessions: int(p.sessions.Active()),
	}
	m.Address = p.fleetAddress()
	p.announced.Store(m.Address, struct{}{})
	// A version with the same content as the one before is not applied, but is in force.
	if follower := p.fleet.follower.Load(); follower != nil {
		m.Config = follower.Status().Version
	} else if snapshot := p.services.Snapshot(); snapshot != nil {
		m.Config = snapshot.Version()
	}
	if p.fleet.serves.Load() {
		m.State = fleet.Serving
	}
	if end := p.end.Load(); end != nil && !end.closed.IsZero() {
		m.State = fleet.Draining
	}
	return m
}

// learned hands on what the agent has learned.
func (p *Proxy) learned(s *agent.Status) {
	if s.Mode == agent.Unshared {
		p.services.SetLedger(nil)
		return
	}
	l := &services.Ledger{Self: s.Self, Accounts: s.Accounts, Members: s.Members}
	if s.Mode == agent.Waiting || s.Frozen || s.Problem != "" { // not a name that two have: places are granted all the same
		l.Trouble = s.Line()
	}
	p.services.SetLedger(l)
}

// fleetAddress returns the URL of the admin API as other proxies reach it; empty if they cannot. While a successor has the address of the
// settings, it is the one that this process has for itself.
func (p *Proxy) fleetAddress() string {
	address := p.fleet.address.Load()
	if address == nil {
		return ""
	}
	apart := p.apartAt.Load()
	if apart == nil {
		return *address
	}
	u, err := url.Parse(*address)
	if err != nil {
		return ""
	}
	for _, at := range *apart {
		if tcp, ok := at.(*net.TCPAddr); ok {
			u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(tcp.Port))
			return u.String()
		}
	}
	return ""
}

// hasAnnounced reports whether this process has told the fleet that other proxies reach it at an address. During an upgrade there is more than
// one, and others may still ask at the one before.
func (p *Proxy) hasAnnounced(address string) bool {
	_, ok := p.announced.Load(address)
	return ok && address != ""
}

// ownAddress returns the URL of the admin API if this process has opened its listener, and no other process; otherwise an empty text. What
// --fleet-address says may lead to several, or have been copied from another proxy's settings.
func (p *Proxy) ownAddress() string {
	if p.settings.FleetAddress != "" {
		return ""
	}
	for _, i := range p.inheritance.kept {
		if p.inheritance.given[i].Kind == takeover.Admin {
			return ""
		}
	}
	if p.apartAt.Load() != nil {
		return ""
	}
	return p.fleetAddress()
}

// announce waits until the ledger knows what the proxy is and does at this moment, but not for long.
func (p *Proxy) announce() { p.awaitGrants(context.Background()) }

// findAddress finds out at which URL other proxies reach the admin API, if that is not known yet.
func (p *Proxy) findAddress(ledger *Ledger) {
	if p.fleet.address.Load() != nil || time.Now().Before(p.fleet.findAgain) {
		return
	}
	address := p.settings.FleetAddress
	if address == "" {
		at, ok := p.AdminAddress().(*net.TCPAddr)
		if !ok { // there is only a socket
			return
		}
		host, _, err := net.SplitHostPort(p.settings.Admin)
		if err != nil {
			return
		}
		if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
			if host, err = towards(ledger); err != nil {
				if p.fleet.findAgain.IsZero() {
					p.log.Warn("other proxies cannot reach this one's admin API: set fleet-address", "reason", err)
				}
				p.fleet.findAgain = time.Now().Add(findPause)
				return
			}
		}
		scheme := "http://"
		if p.adminSecured != nil {
			scheme = "https://"
		}
		address = scheme + net.JoinHostPort(host, strconv.Itoa(at.Port))
	}
	p.fleet.address.Store(&address)
}

// towards returns this machine's address towards the ledger's database.
func towards(ledger *Ledger) (host string, err error) {
	const loopback = "127.0.0.1"
	if ledger.Local() {
		return loopback, nil
	}
	server, err := pgconnect.Server(ledger.database)
	if err != nil {
		return "", err
	}
	if server == "" {
		return loopback, nil
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.Dial("udp", server) // sends nothing
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

// identified adds to the answers of /healthz which process answers, so that other proxies know whom they have reached.
func (p *Proxy) identified(next http.Handler) http.Handler {
	if p.fleet == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			w.Header().Set(presence.Header, string(p.fleet.id))
		}
		next.ServeHTTP(w, r)
	})
}

// fleetLine says in one line what is wrong in the fleet; empty if nothing is.
func (p *Proxy) fleetLine() string {
	if p.fleet == nil || p.fleet.agent == nil {
		return ""
	}
	return p.fleet.agent.Status().Line()
}

// CheckLedger looks whether the ledger can be used, without changing anything in it. others are the proxies that it knows, except one of
// this name on this host.
func CheckLedger(ctx context.Context, l *Ledger, name string) (others []fleet.Member, err error) {
	if l.Local() {
		if kind := machine.NetworkFile(filepath.Dir(l.path)); kind != "" {
			return nil, fmt.Errorf("%w: %s is on %s", fleet.ErrNetworkFile, l.path, kind)
		}
		return nil, nil
	}
	store, err := fleetpostgres.Open(l.database, fleetpostgres.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, store.Close()) }()
	ledger, err := store.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	others = slices.DeleteFunc(ledger.ByName(), func(m fleet.Member) bool { return m.Name == name && m.Host == presence.Host() })
	return others, store.Check(ctx)
}

// fleetMemory is a file that says whether the proxy has always been alone in its fleet. It is owned by the agent's goroutine.
type fleetMemory struct {
	path string // static
	own  note   // static, but for Alone
	log  *slog.Logger

	written bool // own is what the file has
	failed  bool // that it cannot be written was logged
}

// note is the file's content. A note of another ledger says nothing, and neither does one in a copy of the state directory, whose instance is
// another.
type note struct {
	Ledger   string `json:"ledger"`
	Instance string `json:"instance"`
	Alone    bool   `json:"alone"`
}

// newFleetMemory returns the memory of a process with that instance of its state directory.
func newFleetMemory(path, ledger, instance string, log *slog.Logger) *fleetMemory {
	return &fleetMemory{path: path, own: note{Ledger: ledger, Instance: instance}, log: log}
}

// Alone implements [agent.Memory].
func (m *fleetMemory) Alone() bool {
	n, ok := m.read()
	return ok && n.Alone
}

// read returns the file's note, if it is about this state directory and ledger.
func (m *fleetMemory) read() (n note, ok bool) {
	data, err := os.ReadFile(m.path)
	if err != nil || json.Unmarshal(data, &n) != nil {
		return note{}, false
	}
	return n, m.own.Instance != "" && n.Instance == m.own.Instance && n.Ledger == m.own.Ledger
}

// Note implements [agent.Memory]. A proxy that has seen others may have them again at any time, so that is never forgotten.
func (m *fleetMemory) Note(alone bool) {
	if m.written && (m.own.Alone == alone || !m.own.Alone) || m.own.Instance == "" {
		return
	}
	n, ok := m.read()
	m.own.Alone, m.written = alone && (!ok || n.Alone), true
	if ok && n == m.own {
		return
	}
	data, err := json.Marshal(m.own)
	if err == nil {
		err = file.Replace(m.path, append(data, '\n'))
	}
	if err == nil {
		m.failed = false
		return
	}
	m.written = false
	if !m.own.Alone { // a note that says otherwise would be wrong from now on
		_ = os.Remove(m.path)
	}
	if !m.failed {
		m.failed = true
		m.log.Warn("cannot note whether other proxies share the caps: a start without the database waits for it", "reason", err)
	}
}
