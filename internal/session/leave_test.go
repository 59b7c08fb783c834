package session

import (
	"net"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A client that leaves gives its place in the queue up, and gets no connection.
func TestWaitingClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(*wstest.Peer){
		"ends the stream": func(p *wstest.Peer) { _ = p.Close() },
		"half closes":     func(p *wstest.Peer) { _ = p.Conn.(*net.TCPConn).CloseWrite() },
		"resets":          (*wstest.Peer).Reset,
		"ends the stream behind a message": func(p *wstest.Peer) {
			p.Send(frame.Text, "never mind")
			_ = p.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{profile: "echo", queue: 3, script: &wstest.Server{Serve: wstest.Echo}})
			holder := r.join()
			first, second, third := r.queued(), r.queued(), r.queued()
			leave(second)
			wstest.Eventually(t, "its place is free", func() bool { return r.group.Queue().Waiting == 2 })
			fourth := r.queued() // the queue was full with the one that has left
			leave(first)         // the head
			wstest.Eventually(t, "its place is free", func() bool { return r.group.Queue().Waiting == 2 })
			for _, next := range []*wstest.Peer{third, fourth} {
				holder.CloseNormally()
				next.ExpectUpgrade()
				next.Ask("hello")
				holder = next
			}
			holder.CloseNormally()
			r.ready(1)
			if s := r.backend.Stats().Totals; s.Leased != 3 || s.Returned != 3 || s.Dialed != 1 {
				t.Errorf("totals: %+v; want three leases", s)
			}
			if q := r.group.Queue().Totals; q.Left != 2 || q.Served != 2 || q.Queued != 4 {
				t.Errorf("queue: %+v", q)
			}
			if got := r.server.Stats().Refused; len(got) != 0 {
				t.Errorf("refused: %v", got)
			}
		})
	}
}

// hooked is a client's connection that tells when the proxy is about to wait with it: then it takes away the deadline of
// the handshake.
type hooked struct {
	net.Conn
	waits func()
}

func (h hooked) SetDeadline(t time.Time) error {
	h.waits()
	return h.Conn.SetDeadline(t)
}

// acquire leases a connection for a client that has sent its request, as the server does. meanwhile is called when the
// client is in the queue.
func (r *rig) acquire(nc net.Conn, request *handshake.Request, at time.Time, meanwhile func()) (*backend.Conn, error) {
	defer r.server.registry.removeWaiting(0)
	return r.server.acquire(r.service, hooked{nc, meanwhile}, request, &arrival{Client: Client{Arrived: at}, opening: &opening{set: &r.server.openings}})
}

// hold leases the only connection.
func (r *rig) hold() *backend.Conn {
	r.t.Helper()
	r.ready(1)
	conn, ok, err := r.group.Acquire(&pool.Waiter[*backend.Conn]{})
	if !ok || err != nil {
		r.t.Fatalf("not leased: %v", err)
	}
	return conn
}

// handOver ends the lease of hold, so that the connection is handed to the client that waits.
func (r *rig) handOver(conn *backend.Conn) {
	r.t.Helper()
	served := r.group.Queue().Totals.Served
	conn.ReturnUnused()
	wstest.Eventually(r.t, "the connection is handed over", func() bool { return r.group.Queue().Totals.Served == served+1 })
}

// A connection that is handed over at the moment in which its client is seen to leave, or in which the proxy begins to
// drain, goes back unused, even if it is good for one session only. One whose time is up at that moment gets it all the
// same, if it is still there.
func TestHandedOverAtTheLastMoment(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		then    func(r *rig, client net.Conn)
		leased  string
	}{
		{"the client leaves", time.Hour, func(_ *rig, client net.Conn) { _ = client.Close() }, "no"},
		{"the proxy drains", time.Hour, func(r *rig, _ net.Conn) { r.server.drain() }, "perhaps"},
		{"its time is up", 0, func(*rig, net.Conn) {}, "yes"},
		{"its time is up, and it leaves", 0, func(_ *rig, client net.Conn) { _ = client.Close() }, "no"},
	} {
		for _, profile := range []string{"one-shot", "echo"} {
			t.Run(c.name+", "+profile, func(t *testing.T) {
				for range 10 { // what is seen first is chance
					r := newRig(t, setup{profile: profile, queue: 1, service: func(s *Service) { s.QueueTimeout = c.timeout }})
					held := r.hold()
					client, nc := net.Pipe()
					conn, err := r.acquire(nc, new(handshake.Request), time.Now(), func() {
						c.then(r, client)
						r.handOver(held)
					})
					if leased := err == nil; c.leased != "perhaps" && leased != (c.leased == "yes") {
						t.Fatalf("leased: %v, %v; want %s", leased, err, c.leased)
					}
					if err == nil {
						conn.ReturnUnused()
					}
					_, _ = nc.Close(), client.Close()
					r.ready(1)
					if s := r.backend.Stats().Totals; s.Dialed != 1 || s.Leased != 2 || s.Returned != 2 {
						t.Errorf("totals: %+v; want one connection, given back twice", s)
					}
					if c.leased != "perhaps" { // it still serves
						client, server := r.session()
						client.Send(frame.Text, "hello")
						server.Expect(frame.Text, "hello")
					}
				}
			})
		}
	}
}

// Clients that leave while their connection is on its way cost it only if their session has begun.
func TestLeavingRaces(t *testing.T) {
	const rounds = 60
	for _, profile := range []string{"one-shot", "echo"} {
		t.Run(profile, func(t *testing.T) {
			r := newRig(t, setup{profile: profile, queue: 1, script: &wstest.Server{Serve: wstest.Echo}})
			for i := range rounds {
				holder := r.join()
				p := r.queued()
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					if i%2 == 0 {
						p.Reset()
					} else {
						_ = p.Close()
					}
				}()
				if i%3 > 0 { // otherwise the client is gone before the connection comes free, as like as not
					<-closed
				}
				holder.CloseNormally()
				<-closed
				wstest.Eventually(t, "all is over", func() bool {
					return r.server.Active() == 0 && r.group.Queue().Waiting == 0 && r.backend.Stats().Idle == 1
				})
			}
			q, s, total := r.group.Queue().Totals, r.backend.Stats().Totals, r.server.Stats().Total
			t.Logf("%d sessions, queue %+v", total, q)
			if q.Left+q.Served != rounds {
				t.Errorf("queue: %+v; want %d clients", q, rounds)
			}
			if profile == "one-shot" && s.Discarded != total {
				t.Errorf("totals %+v for %d sessions; want that each has cost a connection, and nothing else", s, total)
			}
			if profile == "echo" && s.Dialed != 1 {
				t.Errorf("totals %+v; want one connection", s)
			}
		})
	}
}

// The time that a client takes for its request is not taken from its time in the queue.
func TestPatienceBeginsInQueue(t *testing.T) {
	r := newRig(t, setup{queue: 1})
	held := r.hold()
	client, nc := net.Pipe()
	defer client.Close()
	defer nc.Close()
	conn, err := r.acquire(nc, new(handshake.Request), time.Now().Add(-2*r.service.QueueTimeout), func() { r.handOver(held) })
	if err != nil {
		t.Fatal(err)
	}
	conn.ReturnUnused()
}
