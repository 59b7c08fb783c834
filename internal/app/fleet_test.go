package app

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/fleet/presence"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestFleet has two proxies share a server's cap by their state directory. When one ends, the other has all places.
func TestFleet(t *testing.T) {
	t.Parallel()
	server := wstest.StartLibraryServer(t, wstest.LibraryEcho)
	directory := t.TempDir()
	start := func(name string) *Proxy {
		s := DefaultSettings()
		s.Listen, s.Backends, s.Connections = []string{"127.0.0.1:0"}, []string{server.URL}, 6
		s.StateDirectory, s.ProxyName, s.DrainTimeout = directory, name, 0
		p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	idle := func(p *Proxy) int { return p.Stats().Backends[0].Idle }
	a := start("a")
	wstest.Eventually(t, "a has all places", func() bool { return idle(a) == 6 })
	if f := a.fleetShown(); f.Mode != api.FleetAlone || len(f.Proxies) != 1 || f.Proxies[0].Places != 6 || f.Ledger != filepath.Join(directory, "fleet.db") {
		t.Errorf("%+v", f)
	}
	b := start("b")
	wstest.Eventually(t, "b has places, too", func() bool {
		ofB := idle(b) // first, since b gets what a gives up meanwhile
		n := ofB + idle(a)
		if n > 6 {
			t.Errorf("they have %d connections together", n)
		}
		return ofB > 0 && n == 6
	})
	if f := b.fleetShown(); f.Mode != api.FleetShare || len(f.Proxies) != 2 || f.Proxies[0].Name != "a" || f.Proxies[1].Name != "b" || !f.Proxies[1].Self {
		t.Errorf("%+v", f)
	}
	client := wstest.Dial(t, a.Addresses()[0].String(), wstest.UpgradeRequest("/"))
	wstest.Eventually(t, "a has a session", func() bool { return a.sessions.Active() == 1 })
	if n := a.fleetShown().Proxies[0].Sessions; n != 1 {
		t.Errorf("a says that it has %d sessions, and has 1", n)
	}
	_ = client.Close()
	a.Shutdown()
	wstest.Eventually(t, "b has all places", func() bool { return idle(b) == 6 })
	wstest.Eventually(t, "b is alone", func() bool { return b.fleetShown().Mode == api.FleetAlone })
	b.Shutdown()
}

// TestLockedUntilTheEnd: a process holds its lock, whose release proves to others that it has ended, until its last connections are closed. A server that
// does not close its side may leave some open for longer than the pools wait.
func TestLockedUntilTheEnd(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.Listen, s.Backends = []string{"127.0.0.1:0"}, []string{wstest.StartLibraryServer(t, wstest.LibraryEcho).URL}
	s.StateDirectory, s.AdminSocket, s.DrainTimeout = t.TempDir(), "", 0
	p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	other := presence.Open(presence.Options{ID: "0000000000000001", Directory: s.StateDirectory, Log: slog.New(slog.DiscardHandler)})
	defer other.Close(true)
	p.background.Go(func() {
		<-p.stopped.Done() // it has left the fleet, and its loops are not closed
		if other.Alone() {
			t.Error("its lock is free while it may have connections")
		}
	})
	p.Shutdown()
	if !other.Alone() {
		t.Error("it holds its lock after its end")
	}
}

// TestVersionWithoutChange: two changes that undo each other make a new version with the same content. The fleet must hear that it is in force.
func TestVersionWithoutChange(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "wsbouncer.db")
	s := DefaultSettings()
	s.Listen, s.AdminSocket, s.Database, s.DrainTimeout = []string{"127.0.0.1:0"}, "", database, 0
	p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Shutdown()
	version := func() string { return p.follower.Status().Version }
	for n := 2; ; n += 2 {
		changes := p.follower.Status().Changes
		for _, m := range []config.Mutation{
			{Verb: config.Add, Kind: config.KindTenant, Name: "acme"},
			{Verb: config.Remove, Kind: config.KindTenant, Name: "acme"},
		} {
			if _, err := p.store.Apply(t.Context(), config.Change{Who: "test", Mutations: []config.Mutation{m}}); err != nil {
				t.Fatal(err)
			}
		}
		wstest.Eventually(t, "the version is in force", func() bool { return version() == strconv.Itoa(n) })
		if p.follower.Status().Changes == changes { // both were seen as one
			break
		}
	}
	wstest.Eventually(t, "the fleet hears of it", func() bool { f := p.fleetShown(); return f.Self().Configuration == version() })
}

// TestSuccessorWithoutPlaces: a process that gets no places, since the ledger grants none, must not take over from one that serves.
func TestSuccessorWithoutPlaces(t *testing.T) {
	t.Parallel()
	server := wstest.StartLibraryServer(t, wstest.LibraryEcho)
	directory := t.TempDir()
	start := func(url string) *Proxy {
		s := DefaultSettings()
		s.Listen, s.Backends, s.Connections = []string{"127.0.0.1:0"}, []string{url}, 6
		s.StateDirectory, s.AdminSocket, s.DrainTimeout = directory, "", 0
		p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Shutdown() })
		return p
	}
	old := start(server.URL)
	wstest.Eventually(t, "the old one serves", func() bool { return old.Ready() == nil && old.Stats().Backends[0].Idle == 6 })
	files, err := filepath.Glob(filepath.Join(directory, "fleet.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	wstest.Eventually(t, "the ledger has to begin anew", func() bool { return old.fleetShown().Frozen })
	if lacks := old.Lacks(); lacks != "" {
		t.Errorf("the old one keeps its places, and says %q", lacks)
	}
	next := start(server.URL)
	lacks := next.Lacks()
	if !strings.Contains(lacks, "no places are granted until") {
		t.Errorf("the new one lacks %q", lacks)
	}
	if err := old.prepare(lacks); err == nil || !strings.HasSuffix(err.Error(), lacks) {
		t.Errorf("it may take over: %v", err)
	}
	if err := start("ws://127.0.0.1:1").prepare(lacks); err != nil {
		t.Errorf("it may not take over from one that cannot serve, either: %v", err)
	}
	wstest.Eventually(t, "the new one has places", func() bool { return next.Lacks() == "" })
	if err := old.prepare(next.Lacks()); err != nil {
		t.Error(err)
	}
}

// TestSuccessorWithoutConnections: a process that cannot connect to a server, since its settings have changed, must not take over from one that can. It
// may where that one cannot either, or may have all the places that there are.
func TestSuccessorWithoutConnections(t *testing.T) {
	t.Parallel()
	good, bad := wstest.StartLibraryServer(t, wstest.LibraryEcho).URL, "ws://"+wstest.FreeAddress(t)
	directory := t.TempDir()
	start := func(url, fleet string, warm int) *Proxy {
		s := DefaultSettings()
		s.Listen, s.Backends, s.Connections, s.Warm, s.Fleet = []string{"127.0.0.1:0"}, []string{url}, 4, warm, fleet
		s.StateDirectory, s.AdminSocket, s.DrainTimeout = directory, "", 0
		p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Shutdown() })
		return p
	}
	next := start(bad, settings.FleetAuto, 4)
	wstest.Eventually(t, "the new one cannot connect", func() bool { return strings.Contains(next.Lacks(), "refused") })
	for _, c := range []struct {
		what, url, fleet string
		warm             int
		cancels          bool
	}{
		{"it serves", good, settings.FleetAuto, 4, true},
		{"it serves, and has places free beside no ledger", good, settings.Off, 2, true},
		{"it serves, and has all places beside no ledger", good, settings.Off, 4, false},
		{"it cannot connect either", bad, settings.Off, 2, false},
	} {
		old := start(c.url, c.fleet, c.warm)
		wstest.Eventually(t, "the old one has tried", func() bool { return old.Stats().Backends[0].Idle == c.warm || strings.Contains(old.Lacks(), "refused") })
		if err := old.prepare(next.Lacks()); (err != nil) != c.cancels {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestFleetMemory notes whether a proxy has always been alone, for the next start with the same ledger and in the same state directory.
func TestFleetMemory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.json")
	open := func(ledger, instance string) *fleetMemory {
		return newFleetMemory(path, ledger, instance, slog.New(slog.DiscardHandler))
	}
	m := open("db", "here")
	if m.Alone() {
		t.Error("without a note it was alone")
	}
	m.Note(true)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Note(true)
	if next := open("db", "here"); !next.Alone() {
		t.Error("it was alone, and that is not known")
	} else {
		next.Note(true)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the same note was written again: %v", err)
	}
	if open("another", "here").Alone() || open("db", "a copy").Alone() || open("db", "").Alone() {
		t.Error("the note counts for another ledger or state directory")
	}
	m.Note(false)
	if open("db", "here").Alone() {
		t.Error("it was not alone")
	}
	m.Note(true)
	next := open("db", "here")
	next.Note(true) // the other one has ended, and may be back at any time
	if next.Alone() || m.Alone() {
		t.Error("another proxy was seen, and that is forgotten")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if open("db", "here").Alone() {
		t.Error("half a note counts")
	}
}

// TestLedger chooses where grants are kept.
func TestLedger(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	file := filepath.Join(t.TempDir(), "c.db")
	link := filepath.Join(t.TempDir(), "link.db")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		database, directory, fleet string
		want                       string
		local                      bool
	}{
		{"postgres://me:s3cret@db/wsbouncer", "/a", settings.FleetAuto, "postgres://me:xxxxx@db/wsbouncer", false},
		{"/b/wsbouncer.db", "/a", settings.FleetAuto, "/b/wsbouncer.db-fleet", true},
		{"sqlite:/b/c.db", "/a", settings.FleetAuto, "/b/c.db-fleet", true},
		{link, "/a", settings.FleetAuto, file + "-fleet", true},
		{"/b/c.yaml", "/a", settings.FleetAuto, filepath.FromSlash("/a/fleet.db"), true},
		{"", "/a", settings.FleetAuto, filepath.FromSlash("/a/fleet.db"), true},
		{"", "", settings.FleetAuto, "", false},
		{"/b/wsbouncer.db", "/a", settings.Off, "", false},
	} {
		s := DefaultSettings()
		s.Database, s.StateDirectory, s.Fleet = c.database, c.directory, c.fleet
		ledger, why := s.Ledger()
		switch {
		case c.want == "":
			if ledger != nil || why == "" {
				t.Errorf("%+v: %+v, %q", c, ledger, why)
			}
		case ledger == nil || ledger.Shown != c.want || ledger.Local() != c.local:
			t.Errorf("%+v: %+v, %q", c, ledger, why)
		}
	}
}

// TestOwnAddress takes the address of the admin API for this process's own, unless it comes from fleet-address: two proxies of a host with the
// same one, copied or of a load balancer, must not take each other for dead.
func TestOwnAddress(t *testing.T) {
	t.Parallel()
	address := "http://10.0.0.5:9090"
	p := &Proxy{fleet: new(membership)}
	p.fleet.address.Store(&address)
	if own := p.ownAddress(); own != address {
		t.Errorf("derived from --admin: %q", own)
	}
	p.settings.FleetAddress = address
	if own := p.ownAddress(); own != "" {
		t.Errorf("from --fleet-address: %q", own)
	}
}

// TestAddressFoundLater: a proxy whose database cannot be looked up at first finds its address later.
func TestAddressFoundLater(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	synctest.Test(t, func(t *testing.T) {
		p := &Proxy{
			fleet: &membership{presence: presence.Open(presence.Options{})}, services: new(services.Services), sessions: &session.Server{Sessions: new(relay.Sessions)},
			adminAt: []net.Listener{listener}, log: slog.New(slog.DiscardHandler),
		}
		p.settings.Admin = "0.0.0.0:0"
		ledger := &Ledger{database: "port=none"}
		address := func(want string) {
			t.Helper()
			if got := p.about(ledger).Address; got != want {
				t.Errorf("its address is %q, not %q", got, want)
			}
		}
		address("")
		ledger.database = "host=127.0.0.1"
		address("") // not so soon
		time.Sleep(findPause)
		address("http://" + listener.Addr().String())
	})
}
