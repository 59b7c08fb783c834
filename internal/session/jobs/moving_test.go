package jobs

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// moved waits until an order about one session is done, and returns what has come of it.
func (r *rig) moved(find func() (MoveOrder, bool)) (m OrderedMove) {
	r.T.Helper()
	wstest.Eventually(r.T, "the order is done", func() bool {
		all, ok := find()
		if ok && all.Done {
			m = all.Sessions[0]
		}
		return ok && all.Done
	})
	return m
}

// An operator's order waits for an answered point: then nothing is replayed.
func TestMoveSessionAtAnsweredPoint(t *testing.T) {
	r := newVoskRig(t, 2, setup{})
	client, server, n := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	id := r.id()
	if m, ok := r.jobs.MoveSession(id, nil, time.Hour); !ok || len(m.Sessions) != 1 || m.Sessions[0].ID != id || m.Backend != "" {
		t.Fatalf("%+v, %v", m, ok)
	}
	wstest.Eventually(t, "the session has the pending move", func() bool {
		m, _ := r.jobs.SessionMoveOrder(id)
		return m.Sessions[0].Why == "it waits for its next answered point"
	})
	sessiontest.Speak(client, server, 1, sessiontest.Partial("one and"), sessiontest.Partial("one and"))
	if m, _ := r.jobs.SessionMoveOrder(id); m.Done || m.Sessions[0].State != MovePending {
		t.Errorf("before the answered point: %+v", m)
	}
	sessiontest.Speak(client, server, 2, sessiontest.Final("one", 0.05, 0.15), sessiontest.Final("one", 0.05, 0.15))
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	m := r.moved(func() (MoveOrder, bool) { return r.jobs.SessionMoveOrder(id) })
	if m.State != Moved || m.To != r.Backends[1-n].Name() || m.Replayed != 0 || m.Why != "" {
		t.Errorf("%+v", m)
	}
	sessiontest.Speak(client, next, 3, sessiontest.Partial("two"), sessiontest.Partial("two"))
	if line := r.Line("session moved"); line["cause"].String() != meter.Ordered.String() {
		t.Errorf("the log says %v", line)
	}
}

// A drain moves by replay what has not come to an answered point in time.
func TestMoveBackendByReplay(t *testing.T) {
	r := newVoskRig(t, 2, setup{})
	client, server, n := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	name := r.Backends[n].Name()
	r.jobs.MoveBackend(name, 0)
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(0))
	next.Send(frame.Text, sessiontest.Partial("one"))
	m := r.moved(func() (MoveOrder, bool) { return r.jobs.BackendMoveOrder(name) })
	if m.State != Moved || m.To != r.Backends[1-n].Name() || m.Replayed != 100*time.Millisecond {
		t.Errorf("%+v", m)
	}
	sessiontest.Speak(client, next, 1, sessiontest.Final("one", 0.05, 0.15), sessiontest.Final("one", 0.05, 0.15))
	if _, ok := r.jobs.BackendMoveOrder("unknown"); ok {
		t.Error("there was an order about an unknown backend")
	}
}

// The sessions of a backend that has left its service stay when it comes back, as a pod does that was not ready for a moment.
func TestMoveAwayEndsWhenBackendIsBack(t *testing.T) {
	r := newVoskRig(t, 2, setup{})
	client, server, n := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	b := r.Backends[n]
	b.Leave()
	r.jobs.MoveAway(b, time.Hour)
	wstest.Eventually(t, "the session has the pending move", func() bool {
		m, _ := r.jobs.BackendMoveOrder(b.Name())
		return len(m.Sessions) == 1 && m.Sessions[0].Why == "it waits for its next answered point"
	})
	b.Restore()
	if m := r.moved(func() (MoveOrder, bool) { return r.jobs.BackendMoveOrder(b.Name()) }); m.State != MoveRefused || m.Why != "its backend is back" {
		t.Errorf("%+v", m)
	}
	sessiontest.Speak(client, server, 1, sessiontest.Final("one", 0.05, 0.15), sessiontest.Final("one", 0.05, 0.15))
	sessiontest.Speak(client, server, 2, sessiontest.Partial("two"), sessiontest.Partial("two"))
	client.CloseNormally()
}

// In a fleet, all places elsewhere may be other proxies'. Only for clients that wait are places granted, so a session that is to move waits for one,
// and stays where it is meanwhile.
func TestMoveWaitsForGrant(t *testing.T) {
	r := newVoskRig(t, 2, setup{})
	client, server, n := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	name, next := r.Backends[n].Name(), r.Backends[1-n]
	granted := func(places int) {
		next.Set(pool.Settings{Cap: 1, Warm: 1, Weight: 1, Shared: true, Grant: places})
	}
	granted(0)
	_ = r.Scripts[1-n].Take().Close() // the connection is closed, since it may no longer be there
	wstest.Eventually(t, "there is no place elsewhere", func() bool { book := next.Pool().Stats(); return book.Used() == 0 })
	r.Backends[n].SetMode(pool.Draining)
	r.jobs.MoveBackend(name, time.Hour)
	wstest.Eventually(t, "the session waits for a place", func() bool { return next.Group().Queue().Waiting == 1 })
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	sessiontest.Speak(client, server, 1, sessiontest.Final("one", 0.05, 0.15), sessiontest.Final("one", 0.05, 0.15))
	granted(1)
	other := r.Scripts[1-n].Take()
	other.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	m := r.moved(func() (MoveOrder, bool) { return r.jobs.BackendMoveOrder(name) })
	if m.State != Moved || m.To != next.Name() {
		t.Errorf("%+v", m)
	}
}

// What cannot move stays where it is, and the order says why.
func TestMoveRefused(t *testing.T) {
	t.Run("no failover", func(t *testing.T) {
		r := newVoskRig(t, 2, setup{Service: func(s *route.Service) { s.Failover = false }})
		client, server, _ := r.Begin()
		id := r.id()
		r.jobs.MoveSession(id, nil, 0)
		if m := r.moved(func() (MoveOrder, bool) { return r.jobs.SessionMoveOrder(id) }); m.State != MoveRefused || m.Why != "its service has failover: off" {
			t.Errorf("%+v", m)
		}
		sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	})
	t.Run("where it is", func(t *testing.T) {
		r := newVoskRig(t, 2, setup{})
		client, server, n := r.Begin()
		id := r.id()
		r.jobs.MoveSession(id, r.Backends[n], 0)
		if m := r.moved(func() (MoveOrder, bool) { return r.jobs.SessionMoveOrder(id) }); m.State != MoveRefused || m.Why == "" {
			t.Errorf("%+v", m)
		}
		sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	})
	t.Run("unknown session", func(t *testing.T) {
		r := newVoskRig(t, 1, setup{})
		if _, ok := r.jobs.MoveSession(record.ID{}, nil, 0); ok {
			t.Error("it is moved")
		}
	})
	t.Run("no place", func(t *testing.T) {
		r := newVoskRig(t, 1, setup{})
		client, server, _ := r.Begin()
		id := r.id()
		r.jobs.MoveSession(id, nil, 0)
		wstest.Eventually(t, "the order says that there is no place", func() bool {
			m, _ := r.jobs.SessionMoveOrder(id)
			return !m.Done && m.Sessions[0].Why == "no other backend of the service has a free place"
		})
		sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
		r.jobs.MoveSession(id, nil, time.Hour) // takes the place of the first order
		client.CloseNormally()
		if m := r.moved(func() (MoveOrder, bool) { return r.jobs.SessionMoveOrder(id) }); m.State != MoveEnded {
			t.Errorf("after the end: %+v", m)
		}
	})
}

// Sessions move to a backend that was added, at answered points, and each but once.
func TestRebalancing(t *testing.T) {
	r := newVoskRig(t, 2, setup{Cap: 8})
	r.Backends[1].SetMode(pool.Draining)
	clients := make([]*wstest.Peer, 4)
	for i := range clients {
		clients[i], _, _ = r.Begin()
	}
	r.Backends[1].SetMode(pool.Enabled)
	v := *r.Service
	v.Rebalance, v.Backends = true, r.Backends
	b := newRebalancing(r.jobs, v.Group)
	serving := func() (n [2]int) {
		loads, _ := v.Group.Loads()
		for i, backend := range r.Backends {
			for j := range loads {
				if loads[j].Pool == backend.Pool() {
					n[i] = loads[j].Leased
				}
			}
		}
		return n
	}
	now := time.Duration(loop.Now())
	b.step(now, &v)
	b.step(now+tooLong-time.Second, &v)
	if len(b.pending) != 0 {
		t.Fatalf("pending moves before half a minute: %+v", b.pending)
	}
	b.step(now+tooLong, &v)
	if len(b.pending) != 2 {
		t.Fatalf("pending moves after half a minute: %+v", b.pending)
	}
	wstest.Eventually(t, "the load is even", func() bool {
		now += time.Second
		b.step(now+tooLong, &v)
		return len(b.pending) == 0 && serving() == [2]int{2, 2}
	})
	resting := 0
	r.sessions.Each(r.sessions.All(), func(s *relay.Session) {
		if !s.FreeToMove(restTime) {
			resting++
		}
	})
	if resting != 2 {
		t.Errorf("%d sessions rest; want the 2 that have moved", resting)
	}
	for range 10 { // as rolled pods do
		gone := v.Group.Add("gone", pool.Settings{Cap: 1, Weight: 1}, func() {})
		b.step(now, &v)
		v.Group.Remove(gone)
		b.step(now, &v)
	}
	if len(b.ids) != len(r.Backends) {
		t.Errorf("it knows %d pools; want those of the %d backends that are left", len(b.ids), len(r.Backends))
	}
	for range 100 {
		now += time.Second
		b.step(now, &v)
	}
	if got := serving(); got != [2]int{2, 2} || b.gives() || len(b.pending) != 0 {
		t.Errorf("afterwards: %v, pending moves %+v", got, b.pending)
	}
}

// The session whose results are latest leaves a backend that is too late, by replay if need be, and no session that is not late does.
func TestRelieve(t *testing.T) {
	r := newVoskRig(t, 2, setup{Service: func(s *route.Service) { s.LagLimit = time.Second }})
	client, server, n := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Final("one", 0.05, 0.15), sessiontest.Final("one", 0.05, 0.15))
	id := r.id()
	wstest.Eventually(t, "all is answered", func() bool { return r.late() == 0 })
	r.jobs.Relieve(r.Backends[n], r.Backends[1-n])
	r.jobs.Relieve(r.Backends[1-n], r.Backends[n])
	if m, ok := r.jobs.SessionMoveOrder(id); ok {
		t.Errorf("a session that is not late was ordered to move: %+v", m)
	}
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	wstest.Eventually(t, "the answer is late", func() bool { return r.late() > 0 })
	r.jobs.Relieve(r.Backends[n], r.Backends[1-n])
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(1))
	m := r.moved(func() (MoveOrder, bool) { return r.jobs.SessionMoveOrder(id) })
	if m.State != Moved || m.To != r.Backends[1-n].Name() || m.Replayed != 100*time.Millisecond {
		t.Errorf("%+v", m)
	}
	next.Send(frame.Text, sessiontest.Partial("two"))
	client.Expect(frame.Text, sessiontest.Partial("two"))
	if line := r.Line("session moved"); line["cause"].String() != meter.Rebalanced.String() {
		t.Errorf("the log says %v", line)
	}
}

// late returns how late the results of the only session are.
func (r *rig) late() (late time.Duration) {
	r.sessions.Each(r.sessions.All(), func(s *relay.Session) { late = s.Late() })
	return late
}
