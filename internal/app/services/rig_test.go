package services

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/admission"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// rig is a proxy whose configuration the test writes, between clients and simulated servers.
type rig struct {
	t        testing.TB
	loops    *loop.Group
	sessions *session.Server
	services *Services
	address  string

	content config.Content // what apply has applied last
	version int
}

func newRig(t testing.TB) *rig { return newLoggedRig(t, slog.DiscardHandler) }

// newLoggedRig is newRig with a log of the test's, and other options.
func newLoggedRig(t testing.TB, handler slog.Handler, changes ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, content: config.NewContent()}
	var err error
	if r.loops, err = loop.NewGroup(loop.Options{Min: 1, Max: 1}); err != nil {
		t.Fatal(err)
	}
	log, scopes := slog.New(handler), limits.NewRegistry()
	r.sessions = session.NewServer(session.Options{
		Shared:    record.NewShared(scopes, nil, log),
		Admission: admission.Options{Limits: admission.Limits{MaxHead: 4 << 10, HandshakeTimeout: wstest.Timeout}}, Relay: relay.Options{Loops: r.loops, Replay: replay.NewArena(16 << 20)},
	})
	o := Options{Loops: r.loops, Scopes: scopes, LimitsChanged: r.sessions.LimitsChanged, SetRoutes: r.sessions.SetServices, Log: log}
	for _, change := range changes {
		change(&o)
	}
	r.services = New(o)
	listener := wstest.Listen(t)
	r.address = listener.Addr().String()
	r.sessions.Serve(listener)
	t.Cleanup(r.close)
	return r
}

// close takes the proxy down, as package app does.
func (r *rig) close() {
	r.sessions.StopAccepting()
	r.sessions.Close()
	wstest.Eventually(r.t, "all sessions end", func() bool {
		r.sessions.EndAll(frame.GoingAway, "test over")
		return r.sessions.Active() == 0
	})
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	r.services.Close(ctx)
	r.loops.Close()
}

// startServer starts a server that takes a number of connections, and echoes. It refuses, and counts, what is more than that.
// The test fails if there was any.
func startServer(t testing.TB, connections int) *sim.Server {
	t.Helper()
	s, err := sim.Start(sim.Options{Sessions: connections})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if refused := s.Stats().Refused; refused > 0 {
			t.Errorf("%s takes %d connections, and had to refuse %d more", s.URL(), connections, refused)
		}
		s.Close()
	})
	return s
}

// apply changes the configuration and applies it.
func (r *rig) apply(change func(*config.Content)) {
	r.t.Helper()
	change(&r.content)
	r.version++
	snapshot, err := config.NewSnapshot(strconv.Itoa(r.version), &r.content, config.CheckProfiles)
	if err == nil {
		err = r.services.Apply(snapshot)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// serve adds the service stt, and a backend of it, and waits until that has its connections.
func (r *rig) serve(name, url string, connections int) {
	r.t.Helper()
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, name, "stt", url, connections, nil)
	})
	r.idle(name, connections)
}

// putService adds a service, or changes it.
func putService(c *config.Content, name string, change func(*config.Service)) {
	s, ok := c.Services[name]
	if !ok {
		s = config.DefaultService()
		s.Path, s.Profile, s.PingInterval, s.QueueTimeout = "/"+name, "echo", 0, wstest.Timeout
		s.SlowStart, s.CloseTimeout = 0, wstest.Timeout // a server that has not seen a connection's end counts it
	}
	if change != nil {
		change(&s)
	}
	c.Services[name] = s
}

// putBackend adds a backend, or changes it.
func putBackend(c *config.Content, name, service, url string, connections int, change func(*config.Backend)) {
	b, ok := c.Backends[name]
	if !ok {
		b = config.DefaultBackend()
	}
	b.Service, b.URL, b.Connections = service, url, connections
	if change != nil {
		change(&b)
	}
	c.Backends[name] = b
}

// setState sets the state of a backend.
func setState(c *config.Content, name, state string) {
	b := c.Backends[name]
	b.State = state
	c.Backends[name] = b
}

// stats returns what the services say of themselves.
func (r *rig) stats() (s api.Stats) {
	r.services.Stats(&s)
	return s
}

// backend returns the statistics of a backend; the zero value if there is none.
func (r *rig) backend(name string) api.Backend {
	for _, b := range r.stats().Backends {
		if b.Name == name {
			return b
		}
	}
	return api.Backend{}
}

// member returns a backend as it runs.
func (r *rig) member(service, name string) *member {
	r.services.mu.Lock()
	defer r.services.mu.Unlock()
	if v := r.services.services[service]; v != nil {
		return v.members[name]
	}
	return nil
}

// idle waits until a backend has n idle connections and no others.
func (r *rig) idle(name string, n int) {
	r.t.Helper()
	var b api.Backend
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s: %+v", name, b.Pool)
		}
	}()
	wstest.Eventually(r.t, fmt.Sprintf("%s has %d idle connections", name, n), func() bool {
		b = r.backend(name)
		return b.Idle == n && b.Dialing+b.Leased+b.Resetting+b.Retiring == 0
	})
}

// settled waits until nothing is under way: every enabled backend has its warm connections and no session, and none is leaving.
func (r *rig) settled() {
	r.t.Helper()
	var s api.Stats
	defer func() {
		if r.t.Failed() {
			r.t.Logf("statistics: %+v", s)
		}
	}()
	wstest.Eventually(r.t, "all is settled", func() bool {
		s = r.stats()
		settled := len(s.Leaving) == 0
		for _, b := range s.Backends {
			want := 0
			switch b.State {
			case pool.Enabled.String():
				want = b.Warm
			case pool.Draining.String():
				want = b.Idle
			}
			settled = settled && b.Idle == want && b.Dialing+b.Leased+b.Resetting+b.Retiring == 0
		}
		return settled
	})
	for _, b := range s.Backends {
		if b.Totals.Leased != b.Totals.Returned+b.Totals.Discarded {
			r.t.Errorf("%s: the books do not balance: %+v", b.Name, b.Totals)
		}
	}
}

// planOf returns the plan for a content, which runs nothing. before is the plan in force, or nil.
func planOf(t testing.TB, content *config.Content, before *plan) *plan {
	t.Helper()
	snapshot, err := config.NewSnapshot("1", content, config.CheckProfiles)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(snapshot, before, nothingFound)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
