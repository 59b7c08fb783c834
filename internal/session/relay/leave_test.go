package relay

import (
	"net"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
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
			r := newRig(t, setup{Profile: "echo", Queue: 3, Script: &wstest.Server{Serve: wstest.Echo}})
			holder := r.Join()
			first, second, third := r.Queued(), r.Queued(), r.Queued()
			leave(second)
			wstest.Eventually(t, "its place is free", func() bool { return r.Group.Queue().Waiting == 2 })
			fourth := r.Queued() // the queue was full with the one that has left
			leave(first)         // the head
			wstest.Eventually(t, "its place is free", func() bool { return r.Group.Queue().Waiting == 2 })
			for _, next := range []*wstest.Peer{third, fourth} {
				holder.CloseNormally()
				next.ExpectUpgrade()
				next.Ask("hello")
				holder = next
			}
			holder.CloseNormally()
			r.Ready(1)
			if s := r.Backend.Stats().Totals; s.Leased != 3 || s.Returned != 3 || s.Dialed != 1 {
				t.Errorf("totals: %+v; want three leases", s)
			}
			if q := r.Group.Queue().Totals; q.Left != 2 || q.Served != 2 || q.Queued != 4 {
				t.Errorf("queue: %+v", q)
			}
			if got := r.stats().Refused; len(got) != 0 {
				t.Errorf("refused: %v", got)
			}
		})
	}
}

// Clients that leave while their connection is on its way cost it only if their session has begun.
func TestLeavingRaces(t *testing.T) {
	const rounds = 60
	for _, profile := range []string{"one-shot", "echo"} {
		t.Run(profile, func(t *testing.T) {
			r := newRig(t, setup{Profile: profile, Queue: 1, Script: &wstest.Server{Serve: wstest.Echo}})
			for i := range rounds {
				holder := r.Join()
				p := r.Queued()
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
					return r.sessions.Active() == 0 && r.Group.Queue().Waiting == 0 && r.Backend.Stats().Idle == 1
				})
			}
			q, s, total := r.Group.Queue().Totals, r.Backend.Stats().Totals, r.stats().Total
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

// hold leases the only connection.
func (r *rig) hold() *backend.Conn {
	r.T.Helper()
	r.Ready(1)
	conn, ok, err := r.Group.Acquire(&pool.Waiter[*backend.Conn]{})
	if !ok || err != nil {
		r.T.Fatalf("not leased: %v", err)
	}
	return conn
}
