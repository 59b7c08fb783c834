package backend

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// rig is a backend and the server that the test plays for it.
type rig struct {
	*Backend
	t      testing.TB
	server *server
	loops  *loop.Group
	log    *capture
}

// newRig starts a backend of one connection with the profile, and what change makes of it.
func newRig(t testing.TB, name string, change func(*Options, *server)) *rig {
	t.Helper()
	r := &rig{t: t, server: newServer(t), log: new(capture)}
	var err error
	if r.loops, err = loop.NewGroup(loop.Options{Min: 2, Max: 2}); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	target, err := handshake.ParseTarget(r.server.url())
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Target: target, Profile: p, Cap: 1, Warm: 1, Loops: r.loops, Log: slog.New(r.log),
		ResetTimeout: testTimeout, CloseTimeout: testTimeout,
	}
	if change != nil {
		change(&o, r.server)
	}
	r.server.start()
	r.Backend = New(o)
	t.Cleanup(r.end)
	return r
}

// end takes everything down and checks that the books balance.
func (r *rig) end() {
	r.server.close()
	eventually(r.t, "all leases end", func() bool {
		s := r.Stats()
		return s.Leased == 0 && s.Resetting == 0
	})
	if s := r.Stats().Totals; s.Leased != s.Returned+s.Discarded {
		r.t.Errorf("the books do not balance: %+v", s)
	}
	r.Close(within(r.t))
	if s := r.Stats(); s.Used() != 0 {
		r.t.Errorf("connections are left after Close: %+v", s)
	}
	r.loops.Close()
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func (r *rig) ready(n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d connections are idle", n), func() bool { return r.Stats().Idle == n })
}

// accepted returns the server's side of the next connection, once it is idle.
func (r *rig) accepted() *peer {
	r.t.Helper()
	select {
	case p := <-r.server.accepted:
		return p
	case <-time.After(testTimeout):
		r.t.Fatal("no connection to the server")
		return nil
	}
}

// lease leases a connection when there is one.
func (r *rig) lease() (c *Conn) {
	r.t.Helper()
	eventually(r.t, "a connection can be leased", func() (ok bool) {
		c, ok = r.Lease()
		return ok
	})
	return c
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

// session holds a lease the way a client's session does.
type session struct {
	t        testing.TB
	conn     *Conn
	greeting []byte
	received []byte
}

// begin begins the session, and returns false when the connection was not alive any more.
func (s *session) begin() (alive bool) {
	done := make(chan struct{})
	s.conn.Use(func(ok bool) {
		defer close(done)
		if alive = ok; ok {
			s.greeting = s.conn.TakeGreeting()
			s.conn.Stream().SetHandler(s)
		}
	})
	<-done
	return alive
}

// on calls f on the connection's loop.
func (s *session) on(f func()) {
	done := make(chan struct{})
	if !s.conn.Stream().Post(func() { f(); close(done) }) {
		s.t.Fatal("the loop has stopped")
	}
	<-done
}

func (s *session) write(b []byte) { s.on(func() { s.conn.Stream().Write(b) }) }

// ask sends a whole message.
func (s *session) ask(text string) {
	s.write(frame.Append(nil, frame.Header{Fin: true, Opcode: frame.Text, Masked: true, Mask: 1}, []byte(text)))
}

// end ends the lease after so many messages were sent.
func (s *session) end(sent uint64) (verdict profile.Verdict) {
	s.on(func() {
		received, receiving := s.conn.Answered()
		verdict = s.conn.End(profile.Traffic{Sent: sent, Received: received, ReceivingMessage: receiving}, false, frame.GoingAway, "over")
	})
	return verdict
}

// Received implements [loop.Handler].
func (s *session) Received(_ *loop.Conn, b []byte) int {
	pos := 0
	for {
		run, err := s.conn.Scanner.Next(b[pos:])
		s.received = append(s.received, b[pos:pos+run.Data]...)
		pos += run.Consumed
		if err != nil || !run.HasControl() {
			return pos
		}
	}
}

// Flushed implements [loop.Handler].
func (s *session) Flushed(*loop.Conn) {}

// Ended implements [loop.Handler].
func (s *session) Ended(*loop.Conn, error) {}

// hear waits until the session has received so many bytes.
func (s *session) hear(n int) {
	eventually(s.t, "the answer arrives", func() (all bool) {
		s.on(func() { all = len(s.received) >= n })
		return all
	})
}

// capture keeps the log above level debug.
type capture struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (c *capture) Enabled(_ context.Context, level slog.Level) bool { return level > slog.LevelDebug }
func (c *capture) WithAttrs([]slog.Attr) slog.Handler               { return c }
func (c *capture) WithGroup(string) slog.Handler                    { return c }

func (c *capture) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprint(r.Level, " ", r.Message))
	return nil
}

func (c *capture) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}
