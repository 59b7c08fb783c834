package backend

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// rig is a backend and the server that the test plays for it.
type rig struct {
	*Backend
	t      testing.TB
	server *wstest.Server
	group  *pool.Group[*Conn]
	loops  *loop.Group
	log    *capture
}

// newRig starts a backend of one connection with the profile, and what change makes of it. Nothing happens by itself, at
// least not for as long as a test takes: no pings, no age, and connections beyond the warm ones stay.
func newRig(t testing.TB, name string, change func(*Options, *wstest.Server)) *rig {
	t.Helper()
	return newRigOver(t, strings.HasPrefix(t.Name(), "TestOverTLS/"), name, change)
}

// newIdleRig is newRig when its connection is idle, and returns the server's side of that.
func newIdleRig(t testing.TB, name string, change func(*Options, *wstest.Server)) (*rig, *wstest.Peer) {
	t.Helper()
	r := newRig(t, name, change)
	r.ready(1)
	return r, r.accepted()
}

// newRigOverTLS is newRig with a server that is reached by TLS.
func newRigOverTLS(t testing.TB, name string, change func(*Options, *wstest.Server)) *rig {
	t.Helper()
	return newRigOver(t, true, name, change)
}

func newRigOver(t testing.TB, overTLS bool, name string, change func(*Options, *wstest.Server)) *rig {
	t.Helper()
	r := &rig{t: t, server: new(wstest.Server), group: pool.NewGroup[*Conn](pool.Options{Queue: 100}), log: new(capture)}
	r.server.Listen(t, overTLS)
	var err error
	if r.loops, err = loop.NewGroup(loop.Options{Min: 2, Max: 2, IOURing: loop.IOURingAuto}); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Target: r.server.Target(), Profile: p, Group: r.group, Settings: pool.Settings{Cap: 1, Warm: 1, Weight: 1},
		Loops: r.loops, Log: slog.New(r.log),
		CloseTimeout: wstest.Timeout, MaxIdle: time.Hour,
	}
	if change != nil {
		change(&o, r.server)
	}
	r.server.Start()
	r.Backend = New(o)
	t.Cleanup(r.end)
	return r
}

// end takes everything down and checks that the books balance.
func (r *rig) end() {
	r.server.HangUpAll()
	defer r.server.Close() // after the backend, which may dial it until it is closed
	wstest.Eventually(r.t, "all leases end", func() bool {
		s := r.Stats()
		return s.Leased == 0 && s.Resetting == 0
	})
	if s := r.Stats().Totals; s.Leased != s.Returned+s.Discarded {
		r.t.Errorf("the books do not balance: %+v", s)
	}
	r.Close(wstest.Context(r.t))
	if s := r.Stats(); s.Used() != 0 {
		r.t.Errorf("connections are left after Close: %+v", s)
	}
	r.loops.Close()
}

// within returns a built-in profile with another timeout of reset or leave.
func within(t testing.TB, name, key string, timeout time.Duration) *profile.Profile {
	t.Helper()
	list, err := profile.Parse("profiles", fmt.Appendf(nil, "profiles: {p: {from: %s, %s: {timeout: %v}}}", name, key, timeout))
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func (r *rig) ready(n int) {
	r.t.Helper()
	wstest.Eventually(r.t, fmt.Sprintf("%d connections are idle", n), func() bool { return r.Stats().Idle == n })
}

// accepted returns the server's side of the next connection, once it is idle.
func (r *rig) accepted() *wstest.Peer {
	r.t.Helper()
	return r.server.Take()
}

// lease leases a connection, and waits for it if it must.
func (r *rig) lease() *Conn {
	r.t.Helper()
	c, err := r.acquire(wstest.Timeout)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// tryLease leases a connection if one is idle.
func (r *rig) tryLease() (*Conn, bool) {
	c, err := r.acquire(0)
	return c, err == nil
}

// acquire leases a connection as a client does, within the timeout.
func (r *rig) acquire(timeout time.Duration) (*Conn, error) {
	var waiter pool.Waiter[*Conn]
	c, ok, err := r.group.Acquire(&waiter)
	if ok || err != nil {
		return c, err
	}
	select {
	case c = <-waiter.Ready():
		return c, nil
	case <-time.After(timeout):
	}
	if c, ok = r.group.Leave(&waiter, pool.TimedOut); ok { // at the last moment
		return c, nil
	}
	return nil, errors.New("no connection came free")
}

// use leases a connection and begins a session on it.
func (r *rig) use() *session {
	r.t.Helper()
	s := &session{t: r.t, conn: r.lease()}
	if !s.begin() {
		r.t.Fatal("the connection is not alive")
	}
	return s
}
